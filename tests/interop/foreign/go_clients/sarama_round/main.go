// A round of what sarama can do, against brokers whose listeners want SCRAM.
//
//	sarama_round BROKERS USER PASSWORD [CHECK...]
//
// The user is a super user. Each check works with names of its own and prints one line, "ok NAME" or
// "FAIL NAME: reason"; the exit code is 1 if one failed. Everything has three replicas.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
)

const (
	partitions = 3
	replicas   = 3
	patience   = 60 * time.Second
)

var (
	brokers        []string
	user, password string
	run            = fmt.Sprintf("%x", time.Now().UnixNano())
	made           int
)

// scramClient is sarama's way to have SCRAM: it brings the messages, another package the mechanism.
type scramClient struct {
	hash         scram.HashGeneratorFcn
	conversation *scram.ClientConversation
}

func (c *scramClient) Begin(user, password, authzID string) error {
	client, err := c.hash.NewClient(user, password, authzID)
	if err == nil {
		c.conversation = client.NewConversation()
	}
	return err
}

func (c *scramClient) Step(challenge string) (string, error) { return c.conversation.Step(challenge) }
func (c *scramClient) Done() bool                            { return c.conversation.Done() }

func configAs(user, password, mechanism string) *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V4_1_0_0
	config.Net.SASL.Enable = true
	config.Net.SASL.User, config.Net.SASL.Password = user, password
	config.Net.SASL.Mechanism = sarama.SASLMechanism(mechanism)
	hash := scram.SHA256
	if mechanism == sarama.SASLTypeSCRAMSHA512 {
		hash = scram.SHA512
	}
	config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &scramClient{hash: hash} }
	config.Metadata.Retry.Max = 20
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewRoundRobinPartitioner
	config.Producer.Idempotent = true
	config.Net.MaxOpenRequests = 1
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	return config
}

func config() *sarama.Config { return configAs(user, password, sarama.SASLTypeSCRAMSHA256) }

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func want[T comparable](what string, got, expected T) {
	if got != expected {
		panic(fmt.Errorf("%s: %v, not %v", what, got, expected))
	}
}

func wantError(what string, err, expected error) {
	if !errors.Is(err, expected) {
		panic(fmt.Errorf("%s: %v, not %v", what, err, expected))
	}
}

func await(what string, done func() bool) {
	deadline := time.Now().Add(patience)
	for !done() {
		if time.Now().After(deadline) {
			panic(fmt.Errorf("not within %v: %s", patience, what))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func admin() sarama.ClusterAdmin { return must(sarama.NewClusterAdmin(brokers, config())) }

func newTopic(name string) string {
	made++
	name = fmt.Sprintf("%s-%s-%d", name, run, made)
	a := admin()
	defer a.Close()
	minimum := "2"
	detail := &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: replicas, ConfigEntries: map[string]*string{"min.insync.replicas": &minimum}}
	check(a.CreateTopic(name, detail, false))
	await(name+" has leaders", func() bool {
		found, err := a.DescribeTopics([]string{name})
		return err == nil && len(found[0].Partitions) == partitions &&
			!slices.ContainsFunc(found[0].Partitions, func(p *sarama.PartitionMetadata) bool { return p.Leader < 0 })
	})
	return name
}

// readAll reads every partition from its beginning until it has `count` records.
func readAll(topic string, count int, config *sarama.Config) []*sarama.ConsumerMessage {
	consumer := must(sarama.NewConsumer(brokers, config))
	defer consumer.Close()
	found := make(chan *sarama.ConsumerMessage, count)
	for partition := range int32(partitions) {
		reader := must(consumer.ConsumePartition(topic, partition, sarama.OffsetOldest))
		defer reader.AsyncClose()
		go func() {
			for message := range reader.Messages() {
				found <- message
			}
		}()
	}
	var messages []*sarama.ConsumerMessage
	for timeout := time.After(patience); len(messages) < count; {
		select {
		case message := <-found:
			messages = append(messages, message)
		case <-timeout:
			panic(fmt.Errorf("%d of %d records of %s within %v", len(messages), count, topic, patience))
		}
	}
	return messages
}

func values(messages []*sarama.ConsumerMessage) string {
	var all []string
	for _, message := range messages {
		all = append(all, string(message.Value))
	}
	sort.Strings(all)
	return strings.Join(all, " ")
}

func codec(compression sarama.CompressionCodec) func() {
	return func() {
		topic := newTopic("codec")
		c := config()
		c.Producer.Compression = compression
		c.Producer.Flush.Messages, c.Producer.Flush.Frequency = 50, 20*time.Millisecond
		producer := must(sarama.NewAsyncProducer(brokers, c))
		const count = 600
		go func() {
			for number := range count {
				value := fmt.Sprintf("%05d %s", number, strings.Repeat("abc", number))
				producer.Input() <- &sarama.ProducerMessage{Topic: topic, Key: sarama.StringEncoder(value[:5]), Value: sarama.StringEncoder(value),
					Headers: []sarama.RecordHeader{{Key: []byte("h"), Value: []byte(value[:5])}}}
			}
		}()
		for range count {
			select {
			case <-producer.Successes():
			case failed := <-producer.Errors():
				panic(failed)
			}
		}
		check(producer.Close())
		seen := map[string]bool{}
		for _, message := range readAll(topic, count, config()) {
			number := string(message.Value[:5])
			want("key", string(message.Key), number)
			want("header", string(message.Headers[0].Value), number)
			want("length of "+number, len(message.Value), 6+3*must(atoi(number)))
			seen[number] = true
		}
		want("records", len(seen), count)
	}
}

func atoi(text string) (number int, err error) {
	_, err = fmt.Sscanf(text, "%d", &number)
	return
}

func topics() {
	topic := newTopic("topics")
	a := admin()
	defer a.Close()
	found := must(a.DescribeTopics([]string{topic}))[0]
	want("replicas", len(found.Partitions[0].Replicas), replicas)
	wantError("a second time", a.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}, false), sarama.ErrTopicAlreadyExists)
	retention := "12345678"
	change := sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &retention}
	check(a.IncrementalAlterConfig(sarama.TopicResource, topic, map[string]sarama.IncrementalAlterConfigsEntry{"retention.ms": change}, false))
	await("retention.ms is described", func() bool {
		entries := must(a.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: topic, ConfigNames: []string{"retention.ms"}}))
		return len(entries) == 1 && entries[0].Value == retention
	})
	check(a.CreatePartitions(topic, 5, nil, false))
	await("5 partitions", func() bool { return len(must(a.DescribeTopics([]string{topic}))[0].Partitions) == 5 })
	check(a.DeleteTopic(topic))
	await("the topic is gone", func() bool {
		return must(a.DescribeTopics([]string{topic}))[0].Err == sarama.ErrUnknownTopicOrPartition
	})
}

// member hands its records on and marks them; it counts its sessions.
type member struct {
	records chan<- *sarama.ConsumerMessage
	mutex   sync.Mutex
	claims  int
}

func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.claims = 0
	for _, claimed := range session.Claims() {
		m.claims += len(claimed)
	}
	return nil
}
func (m *member) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		session.MarkMessage(message, "")
		m.records <- message
	}
	return nil
}

func (m *member) claimed() int {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.claims
}

func join(group, topic string, strategy sarama.BalanceStrategy, records chan<- *sarama.ConsumerMessage) (*member, func()) {
	c := config()
	c.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategy}
	c.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	c.Consumer.Group.Session.Timeout = 10 * time.Second
	client := must(sarama.NewConsumerGroup(brokers, group, c))
	m := &member{records: records}
	ctx, stop := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() {
		for ctx.Err() == nil {
			if err := client.Consume(ctx, []string{topic}, m); errors.Is(err, sarama.ErrClosedConsumerGroup) {
				return
			}
		}
	})
	return m, func() { stop(); ended.Wait(); check(client.Close()) }
}

func send(topic, prefix string, count int) {
	producer := must(sarama.NewSyncProducer(brokers, config()))
	for number := range count {
		_, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(fmt.Sprint(prefix, number))})
		check(err)
	}
	check(producer.Close())
}

func receive(records <-chan *sarama.ConsumerMessage, count int) (messages []*sarama.ConsumerMessage) {
	for timeout := time.After(patience); len(messages) < count; {
		select {
		case message := <-records:
			messages = append(messages, message)
		case <-timeout:
			panic(fmt.Errorf("%d of %d records within %v", len(messages), count, patience))
		}
	}
	return
}

func groupOf(strategy func() sarama.BalanceStrategy) func() {
	return func() {
		topic := newTopic("group")
		group := "group-of-" + topic + "-" + strategy().Name()
		records := make(chan *sarama.ConsumerMessage, 1000)
		one, leaveOne := join(group, topic, strategy(), records)
		await("one has all", func() bool { return one.claimed() == partitions })
		two, leaveTwo := join(group, topic, strategy(), records)
		await("two share", func() bool { return one.claimed()+two.claimed() == partitions && two.claimed() > 0 })
		send(topic, "a", 9)
		want("first", values(receive(records, 9)), "a0 a1 a2 a3 a4 a5 a6 a7 a8")
		a := admin()
		defer a.Close()
		described := must(a.DescribeConsumerGroups([]string{group}))[0]
		want("state", described.State, "Stable")
		want("members", len(described.Members), 2)
		leaveOne()
		await("the other has all", func() bool { return two.claimed() == partitions })
		leaveTwo()
		send(topic, "b", 3)
		_, leave := join(group, topic, strategy(), records)
		want("after the committed offsets", values(receive(records, 3)), "b0 b1 b2")
		leave()
		offsets := must(a.ListConsumerGroupOffsets(group, map[string][]int32{topic: {0, 1, 2}}))
		var sum int64
		for partition := range int32(partitions) {
			sum += offsets.GetBlock(topic, partition).Offset
		}
		want("committed", sum, 12)
		check(a.DeleteConsumerGroup(group))
		wantError("deleted again", a.DeleteConsumerGroup(group), sarama.ErrGroupIDNotFound)
	}
}

func transactional(id string) sarama.AsyncProducer {
	c := config()
	c.Producer.Transaction.ID = id + run
	return must(sarama.NewAsyncProducer(brokers, c))
}

func produceIn(producer sarama.AsyncProducer, topic, value string) {
	for range partitions {
		producer.Input() <- &sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(value)}
	}
	for range partitions {
		select {
		case <-producer.Successes():
		case failed := <-producer.Errors():
			panic(failed)
		}
	}
}

func committedReader() *sarama.Config {
	c := config()
	c.Consumer.IsolationLevel = sarama.ReadCommitted
	return c
}

func transactions() {
	topic := newTopic("transactions")
	producer := transactional("plain")
	for number := range 10 {
		check(producer.BeginTxn())
		if number%3 == 2 {
			produceIn(producer, topic, "aborted")
			check(producer.AbortTxn())
		} else {
			produceIn(producer, topic, fmt.Sprint("c", number))
			check(producer.CommitTxn())
		}
	}
	check(producer.Close())
	seen := map[string]int{}
	for _, message := range readAll(topic, 7*partitions, committedReader()) {
		seen[string(message.Value)]++
	}
	want("committed transactions", len(seen), 7)
	want("aborted records", seen["aborted"], 0)
}

func transactionOfOffsets() {
	in, out := newTopic("txn-in"), newTopic("txn-out")
	group := "group-of-" + in
	send(in, "v", 6)
	producer := transactional("offsets")
	for number, message := range readAll(in, 6, config()) {
		check(producer.BeginTxn())
		produceIn(producer, out, string(message.Value))
		check(producer.AddMessageToTxn(message, group, nil))
		if number%2 == 0 {
			check(producer.CommitTxn())
		} else {
			check(producer.AbortTxn())
			check(producer.BeginTxn())
			produceIn(producer, out, string(message.Value))
			check(producer.AddMessageToTxn(message, group, nil))
			check(producer.CommitTxn())
		}
	}
	check(producer.Close())
	seen := map[string]int{}
	for _, message := range readAll(out, 6*partitions, committedReader()) {
		seen[string(message.Value)]++
	}
	want("values", len(seen), 6)
	a := admin()
	defer a.Close()
	var sum int64
	await("the offsets are committed", func() bool {
		offsets := must(a.ListConsumerGroupOffsets(group, map[string][]int32{in: {0, 1, 2}}))
		sum = 0
		for partition := range int32(partitions) {
			sum += max(offsets.GetBlock(in, partition).Offset, 0)
		}
		return sum == 6
	})
}

func fencing() {
	topic := newTopic("fencing")
	old := transactional("fenced")
	check(old.BeginTxn())
	produceIn(old, topic, "old")
	young := transactional("fenced")
	check(young.BeginTxn())
	produceIn(young, topic, "young")
	check(young.CommitTxn())
	if old.CommitTxn() == nil {
		panic("the old producer may commit")
	}
	old.AsyncClose()
	check(young.Close())
	for _, message := range readAll(topic, partitions, committedReader()) {
		want("committed", string(message.Value), "young")
	}
}

func upsert(a sarama.ClusterAdmin, name, password string, mechanism sarama.ScramMechanismType) {
	results := must(a.UpsertUserScramCredentials([]sarama.AlterUserScramCredentialsUpsert{
		{Name: name, Mechanism: mechanism, Iterations: 4096, Salt: []byte("salt-of-" + name), Password: []byte(password)}}))
	want("upsert", results[0].ErrorCode, sarama.ErrNoError)
}

func mayLogIn(name, password, mechanism string) error {
	c := configAs(name, password, mechanism)
	c.Metadata.Retry.Max = 0
	client, err := sarama.NewClient(brokers, c)
	if err == nil {
		err = client.Close()
	}
	return err
}

func scramUsers() {
	a := admin()
	defer a.Close()
	name := "carol-" + run
	upsert(a, name, "secret-256", sarama.SCRAM_MECHANISM_SHA_256)
	upsert(a, name, "secret-512", sarama.SCRAM_MECHANISM_SHA_512)
	await("both logins", func() bool {
		return mayLogIn(name, "secret-256", sarama.SASLTypeSCRAMSHA256) == nil && mayLogIn(name, "secret-512", sarama.SASLTypeSCRAMSHA512) == nil
	})
	wantError("a wrong password", mayLogIn(name, "secret-512", sarama.SASLTypeSCRAMSHA256), sarama.ErrSASLAuthenticationFailed)
	described := must(a.DescribeUserScramCredentials([]string{name}))
	want("credentials", len(described[0].CredentialInfos), 2)
	for _, mechanism := range []sarama.ScramMechanismType{sarama.SCRAM_MECHANISM_SHA_256, sarama.SCRAM_MECHANISM_SHA_512} {
		deleted := must(a.DeleteUserScramCredentials([]sarama.AlterUserScramCredentialsDelete{{Name: name, Mechanism: mechanism}}))
		want("delete", deleted[0].ErrorCode, sarama.ErrNoError)
	}
	await("no login any more", func() bool {
		return errors.Is(mayLogIn(name, "secret-256", sarama.SASLTypeSCRAMSHA256), sarama.ErrSASLAuthenticationFailed)
	})
}

func acls() {
	topic := newTopic("acls")
	a := admin()
	defer a.Close()
	name := "dave-" + run
	upsert(a, name, "dave-secret", sarama.SCRAM_MECHANISM_SHA_256)
	await("the login", func() bool { return mayLogIn(name, "dave-secret", sarama.SASLTypeSCRAMSHA256) == nil })
	write := func() error {
		c := configAs(name, "dave-secret", sarama.SASLTypeSCRAMSHA256)
		c.Metadata.Retry.Max, c.Producer.Retry.Max = 0, 1
		c.Producer.Idempotent = false // an idempotent one is refused before it knows of a topic
		producer, err := sarama.NewSyncProducer(brokers, c)
		if err != nil {
			return err
		}
		defer producer.Close()
		_, _, err = producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder("v")})
		return err
	}
	wantError("write without a rule", write(), sarama.ErrTopicAuthorizationFailed)
	resource := sarama.Resource{ResourceType: sarama.AclResourceTopic, ResourceName: topic, ResourcePatternType: sarama.AclPatternPrefixed}
	rule := func(operation sarama.AclOperation) *sarama.Acl {
		return &sarama.Acl{Principal: "User:" + name, Host: "*", Operation: operation, PermissionType: sarama.AclPermissionAllow}
	}
	check(a.CreateACLs([]*sarama.ResourceAcls{{Resource: resource, Acls: []*sarama.Acl{rule(sarama.AclOperationWrite), rule(sarama.AclOperationDescribe)}}}))
	await("the write", func() bool { return write() == nil })
	filter := sarama.AclFilter{ResourceType: sarama.AclResourceTopic, ResourceName: &topic, ResourcePatternTypeFilter: sarama.AclPatternPrefixed,
		Operation: sarama.AclOperationAny, PermissionType: sarama.AclPermissionAny}
	found := must(a.ListAcls(filter))
	want("resources with rules", len(found), 1)
	want("rules", len(found[0].Acls), 2)
	want("deleted rules", len(must(a.DeleteACL(filter, false))), 2)
	await("the write is refused again", func() bool { return errors.Is(write(), sarama.ErrTopicAuthorizationFailed) })
}

func quotas() {
	a := admin()
	defer a.Close()
	entity := []sarama.QuotaEntityComponent{{EntityType: sarama.QuotaEntityUser, MatchType: sarama.QuotaMatchExact, Name: "erin-" + run}}
	check(a.AlterClientQuotas(entity, sarama.ClientQuotasOp{Key: "producer_byte_rate", Value: 1e6}, false))
	filter := []sarama.QuotaFilterComponent{{EntityType: sarama.QuotaEntityUser, MatchType: sarama.QuotaMatchExact, Match: "erin-" + run}}
	await("the quota is described", func() bool {
		found := must(a.DescribeClientQuotas(filter, true))
		return len(found) == 1 && found[0].Values["producer_byte_rate"] == 1e6
	})
}

var checks = []struct {
	name string
	run  func()
}{
	{"topics", topics},
	{"codec-none", codec(sarama.CompressionNone)},
	{"codec-gzip", codec(sarama.CompressionGZIP)},
	{"codec-snappy", codec(sarama.CompressionSnappy)},
	{"codec-lz4", codec(sarama.CompressionLZ4)},
	{"codec-zstd", codec(sarama.CompressionZSTD)},
	{"group-range", groupOf(sarama.NewBalanceStrategyRange)},
	{"group-roundrobin", groupOf(sarama.NewBalanceStrategyRoundRobin)},
	{"group-sticky", groupOf(sarama.NewBalanceStrategySticky)},
	{"transactions", transactions},
	{"transaction-of-offsets", transactionOfOffsets},
	{"transaction-fencing", fencing},
	{"scram", scramUsers},
	{"acls", acls},
	{"quotas", quotas},
}

func try(name string, run func()) (ok bool) {
	defer func() {
		if failure := recover(); failure != nil {
			fmt.Printf("FAIL %s: %v\n", name, failure)
		}
	}()
	run()
	fmt.Println("ok", name)
	return true
}

func main() {
	brokers, user, password = strings.Split(os.Args[1], ","), os.Args[2], os.Args[3]
	failed := false
	for _, each := range checks {
		if len(os.Args) == 4 || slices.Contains(os.Args[4:], each.name) {
			failed = !try(each.name, each.run) || failed
		}
	}
	if failed {
		os.Exit(1)
	}
}
