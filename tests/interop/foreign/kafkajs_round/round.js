// A round of what kafkajs can do, against brokers whose listeners want SCRAM.
//
//     node round.js BROKERS USER PASSWORD OTHER OTHER_PASSWORD [CHECK...]
//
// USER (SCRAM-SHA-256) is a super user. OTHER (SCRAM-SHA-512) may do nothing: kafkajs cannot make
// users itself. Each check works with names of its own and prints one line, "ok NAME" or
// "FAIL NAME: reason"; the exit code is 1 if one failed. Everything has three replicas.
'use strict'

const assert = require('node:assert/strict')
const {
  AclOperationTypes,
  AclPermissionTypes,
  AclResourceTypes,
  CompressionCodecs,
  CompressionTypes,
  ConfigResourceTypes,
  Kafka,
  PartitionAssigners,
  ResourcePatternTypes,
  logLevel,
} = require('kafkajs')
const snappy = require('kafkajs-snappy')
const lz4 = require('lz4js')
const { ZstdCodec } = require('zstd-codec')

const PARTITIONS = 3
const REPLICAS = 3
const PATIENCE_MS = 60_000
const RUN = Date.now().toString(16)
const [brokers, user, password, other, otherPassword, ...wanted] = process.argv.slice(2)
let made = 0

CompressionCodecs[CompressionTypes.Snappy] = snappy
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async encoder => Buffer.from(lz4.compress(encoder.buffer)),
  decompress: async buffer => Buffer.from(lz4.decompress(buffer)),
})

function registerZstd() {
  return new Promise(resolve =>
    ZstdCodec.run(zstd => {
      const simple = new zstd.Simple()
      CompressionCodecs[CompressionTypes.ZSTD] = () => ({
        compress: async encoder => Buffer.from(simple.compress(encoder.buffer)),
        decompress: async buffer => Buffer.from(simple.decompress(buffer)),
      })
      resolve()
    })
  )
}

function clientAs(username, secret, mechanism) {
  return new Kafka({
    clientId: 'round',
    brokers: brokers.split(','),
    sasl: { mechanism, username, password: secret },
    logLevel: logLevel.NOTHING,
    retry: { retries: 10 },
  })
}

const kafka = clientAs(user, password, 'scram-sha-256')
const others = clientAs(other, otherPassword, 'scram-sha-512')

async function until(what, done) {
  const deadline = Date.now() + PATIENCE_MS
  while (!(await done())) {
    if (Date.now() > deadline) throw new Error(`not within ${PATIENCE_MS} ms: ${what}`)
    await new Promise(resolve => setTimeout(resolve, 50))
  }
}

async function withAdmin(work) {
  const admin = kafka.admin()
  await admin.connect()
  try {
    return await work(admin)
  } finally {
    await admin.disconnect()
  }
}

async function newTopic(name) {
  const topic = `${name}-${RUN}-${++made}`
  const configEntries = [{ name: 'min.insync.replicas', value: '2' }]
  const topics = [{ topic, numPartitions: PARTITIONS, replicationFactor: REPLICAS, configEntries }]
  await withAdmin(admin => admin.createTopics({ topics, waitForLeaders: true }))
  return topic
}

async function withProducer(options, work) {
  const producer = kafka.producer(options)
  await producer.connect()
  try {
    return await work(producer)
  } finally {
    await producer.disconnect()
  }
}

// A member of a group that keeps what it gets; `count` resolves when it has that many records.
async function member(groupId, topic, options = {}) {
  const consumer = kafka.consumer({
    groupId,
    heartbeatInterval: 300,
    sessionTimeout: 10_000,
    maxWaitTimeInMs: 100,
    ...options,
  })
  const got = []
  const state = { consumer, got, partitions: -1 }
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    state.partitions = (payload.memberAssignment[topic] || []).length
  })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({
    autoCommitThreshold: 1,
    eachMessage: async ({ partition, message }) => got.push({ partition, message }),
  })
  state.count = count => until(`${count} records, ${groupId}`, () => got.length >= count)
  state.leave = () => consumer.disconnect()
  return state
}

const valuesOf = got => got.map(({ message }) => message.value.toString()).sort()

async function topics() {
  const topic = await newTopic('topics')
  await withAdmin(async admin => {
    const described = await admin.fetchTopicMetadata({ topics: [topic] })
    assert.equal(described.topics[0].partitions[0].replicas.length, REPLICAS)
    assert.equal(await admin.createTopics({ topics: [{ topic, numPartitions: 1 }] }), false)
    const resource = { type: ConfigResourceTypes.TOPIC, name: topic }
    await admin.alterConfigs({
      validateOnly: false,
      resources: [{ ...resource, configEntries: [{ name: 'retention.ms', value: '12345678' }] }],
    })
    await until('retention.ms is described', async () => {
      const found = await admin.describeConfigs({ resources: [{ ...resource, configNames: ['retention.ms'] }] })
      return found.resources[0].configEntries[0].configValue === '12345678'
    })
    await admin.createPartitions({ topicPartitions: [{ topic, count: 5 }] })
    await until('5 partitions', async () => (await admin.fetchTopicOffsets(topic)).length === 5)
    await admin.deleteTopics({ topics: [topic] })
    await until('the topic is gone', async () => !(await admin.listTopics()).includes(topic))
  })
}

const codec = compression => async () => {
  const topic = await newTopic('codec')
  const count = 300
  const messages = Array.from({ length: count }, (_, number) => ({
    key: String(number),
    value: `${number} ${'abc'.repeat(number)}`,
    headers: { h: String(number) },
  }))
  await withProducer({ idempotent: true, maxInFlightRequests: 1 }, async producer => {
    for (let at = 0; at < count; at += 100) {
      await producer.send({ topic, compression, acks: -1, messages: messages.slice(at, at + 100) })
    }
  })
  const reader = await member(`group-of-${topic}`, topic)
  try {
    await reader.count(count)
  } finally {
    await reader.leave()
  }
  for (const { message } of reader.got) {
    const number = Number(message.key)
    assert.equal(message.value.toString(), messages[number].value)
    assert.equal(message.headers.h.toString(), String(number))
  }
  assert.equal(new Set(reader.got.map(({ message }) => message.key.toString())).size, count)
}

async function send(topic, prefix, count) {
  const messages = Array.from({ length: count }, (_, number) => ({ value: prefix + number, partition: number % PARTITIONS }))
  await withProducer({}, producer => producer.send({ topic, acks: -1, messages }))
}

async function groups() {
  const topic = await newTopic('group')
  const groupId = `group-of-${topic}`
  const options = { partitionAssigners: [PartitionAssigners.roundRobin] }
  const one = await member(groupId, topic, options)
  await until('one has all', () => one.partitions === PARTITIONS)
  const two = await member(groupId, topic, options)
  await until('two share', () => one.partitions + two.partitions === PARTITIONS && two.partitions > 0)
  await send(topic, 'a', 9)
  await until('9 records', () => one.got.length + two.got.length >= 9)
  assert.deepEqual(valuesOf([...one.got, ...two.got]), ['a0', 'a1', 'a2', 'a3', 'a4', 'a5', 'a6', 'a7', 'a8'])
  await withAdmin(async admin => {
    const { groups: found } = await admin.describeGroups([groupId])
    assert.equal(found[0].state, 'Stable')
    assert.equal(found[0].members.length, 2)
    await one.leave()
    await until('the other has all', () => two.partitions === PARTITIONS)
    await two.leave()
    await send(topic, 'b', 3)
    const again = await member(groupId, topic, options)
    await again.count(3)
    assert.deepEqual(valuesOf(again.got), ['b0', 'b1', 'b2'])
    await again.leave()
    const [{ partitions }] = await admin.fetchOffsets({ groupId, topics: [topic] })
    assert.equal(partitions.reduce((sum, { offset }) => sum + Number(offset), 0), 12)
    await admin.setOffsets({ groupId, topic, partitions: [{ partition: 0, offset: '1' }] })
    await admin.deleteGroups([groupId])
    assert.ok(!(await admin.listGroups()).groups.some(group => group.groupId === groupId))
  })
}

function transactional(id) {
  return kafka.producer({ transactionalId: `${id}-${RUN}`, idempotent: true, maxInFlightRequests: 1 })
}

const everywhere = value => [0, 1, 2].map(partition => ({ value, partition }))

async function transactions() {
  const topic = await newTopic('transactions')
  const producer = transactional('plain')
  await producer.connect()
  for (let number = 0; number < 10; number++) {
    const transaction = await producer.transaction()
    const aborted = number % 3 === 2
    await transaction.send({ topic, messages: everywhere(aborted ? 'aborted' : `c${number}`) })
    await (aborted ? transaction.abort() : transaction.commit())
  }
  await producer.disconnect()
  const reader = await member(`group-of-${topic}`, topic)
  await reader.count(7 * PARTITIONS)
  await reader.leave()
  assert.ok(!valuesOf(reader.got).includes('aborted'))
  assert.equal(new Set(valuesOf(reader.got)).size, 7)
}

async function transactionOfOffsets() {
  const source = await newTopic('txn-in')
  const target = await newTopic('txn-out')
  const consumerGroupId = `group-of-${source}`
  await send(source, 'v', 6)
  const reader = await member(`other-${consumerGroupId}`, source)
  await reader.count(6)
  await reader.leave()
  const producer = transactional('offsets')
  await producer.connect()
  for (const [number, { partition, message }] of reader.got.entries()) {
    for (const commit of number % 2 ? [false, true] : [true]) {
      const transaction = await producer.transaction()
      await transaction.send({ topic: target, messages: everywhere(message.value) })
      const offset = String(Number(message.offset) + 1)
      await transaction.sendOffsets({ consumerGroupId, topics: [{ topic: source, partitions: [{ partition, offset }] }] })
      await (commit ? transaction.commit() : transaction.abort())
    }
  }
  await producer.disconnect()
  const results = await member(`group-of-${target}`, target)
  await results.count(6 * PARTITIONS)
  await results.leave()
  assert.equal(new Set(valuesOf(results.got)).size, 6)
  await withAdmin(admin =>
    until('the offsets are committed', async () => {
      const [{ partitions }] = await admin.fetchOffsets({ groupId: consumerGroupId, topics: [source] })
      return partitions.reduce((sum, { offset }) => sum + Math.max(Number(offset), 0), 0) === 6
    })
  )
}

async function fencing() {
  const topic = await newTopic('fencing')
  const old = transactional('fenced')
  await old.connect()
  const first = await old.transaction()
  await first.send({ topic, messages: everywhere('old') })
  const young = transactional('fenced')
  await young.connect()
  const second = await young.transaction()
  await second.send({ topic, messages: everywhere('young') })
  await second.commit()
  await assert.rejects(first.commit())
  await old.disconnect()
  await young.disconnect()
  const reader = await member(`group-of-${topic}`, topic)
  await reader.count(PARTITIONS)
  await reader.leave()
  assert.deepEqual(new Set(valuesOf(reader.got)), new Set(['young']))
}

async function scram() {
  const admin = others.admin()
  await admin.connect()
  await admin.disconnect()
  const wrong = clientAs(other, 'wrong', 'scram-sha-512').admin({ retry: { retries: 0 } })
  await assert.rejects(wrong.connect(), { name: 'KafkaJSSASLAuthenticationError' })
}

async function acls() {
  const topic = await newTopic('acls')
  const write = async () => {
    const producer = others.producer({ retry: { retries: 0 } })
    await producer.connect()
    try {
      await producer.send({ topic, messages: [{ value: 'v' }] })
      return true
    } catch (error) {
      const refused = `${error.type} ${error.cause && error.cause.type}`
      assert.match(refused, /TOPIC_AUTHORIZATION_FAILED/)
      return false
    } finally {
      await producer.disconnect()
    }
  }
  assert.equal(await write(), false)
  const resource = {
    resourceType: AclResourceTypes.TOPIC,
    resourceName: topic,
    resourcePatternType: ResourcePatternTypes.LITERAL,
  }
  const operations = [AclOperationTypes.WRITE, AclOperationTypes.DESCRIBE]
  const rules = operations.map(operation => ({
    ...resource,
    principal: `User:${other}`,
    host: '*',
    operation,
    permissionType: AclPermissionTypes.ALLOW,
  }))
  const filter = { ...resource, operation: AclOperationTypes.ANY, permissionType: AclPermissionTypes.ANY }
  await withAdmin(async admin => {
    await admin.createAcls({ acl: rules })
    await until('the write', write)
    const { resources } = await admin.describeAcls(filter)
    assert.equal(resources.length, 1)
    assert.equal(resources[0].acls.length, 2)
    const { filterResponses } = await admin.deleteAcls({ filters: [filter] })
    assert.equal(filterResponses[0].matchingAcls.length, 2)
    await until('the write is refused again', async () => !(await write()))
  })
}

async function damagedBatches() {
  const topic = await newTopic('damaged')
  const gzip = CompressionCodecs[CompressionTypes.GZIP]
  CompressionCodecs[CompressionTypes.GZIP] = () => ({ compress: async () => Buffer.from('garbagegarbage') })
  try {
    const sent = withProducer({}, producer =>
      producer.send({ topic, compression: CompressionTypes.GZIP, messages: [{ value: 'v' }] })
    )
    await assert.rejects(sent, error => {
      assert.equal(error.type, 'UNKNOWN')
      assert.equal(error.retriable, false)
      return true
    })
  } finally {
    CompressionCodecs[CompressionTypes.GZIP] = gzip
  }
}

const CHECKS = {
  topics,
  'codec-none': codec(CompressionTypes.None),
  'codec-gzip': codec(CompressionTypes.GZIP),
  'codec-snappy': codec(CompressionTypes.Snappy),
  'codec-lz4': codec(CompressionTypes.LZ4),
  'codec-zstd': codec(CompressionTypes.ZSTD),
  groups,
  transactions,
  'transaction-of-offsets': transactionOfOffsets,
  'transaction-fencing': fencing,
  scram,
  acls,
  'damaged-batches': damagedBatches,
}

async function main() {
  await registerZstd()
  let failed = false
  for (const [name, check] of Object.entries(CHECKS)) {
    if (wanted.length && !wanted.includes(name)) continue
    try {
      await check()
      console.log(`ok ${name}`)
    } catch (error) {
      failed = true
      console.log(`FAIL ${name}: ${String(error.stack || error).replaceAll('\n', ' ').slice(0, 600)}`)
    }
  }
  process.exit(failed ? 1 : 0)
}

main()
