"""Foreign programs: Apache Kafka, the reference implementation, their tools, Hadoop, Spark's
master, Kerberos.
"""
