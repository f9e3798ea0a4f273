// Writes ten orders and reads them as the group `billing`, with kafkajs: npm install && node orders.js
const { Kafka } = require('kafkajs')

const count = 10
const kafka = new Kafka({
  clientId: 'orders',
  brokers: (process.env.BOOTSTRAP_SERVERS ?? '127.0.0.1:9092').split(','),
})

async function main() {
  const producer = kafka.producer({ allowAutoTopicCreation: true })
  await producer.connect()
  const messages = Array.from({ length: count }, (_, number) => ({
    key: `customer-${number % 3}`,
    value: `order ${number}`,
  }))
  await producer.send({ topic: 'orders', messages })
  await producer.disconnect()

  const consumer = kafka.consumer({ groupId: 'billing' })
  await consumer.connect()
  await consumer.subscribe({ topics: ['orders'], fromBeginning: true })
  await new Promise((resolve, reject) => {
    let read = 0
    consumer
      .run({
        eachMessage: async ({ topic, partition, message }) => {
          console.log(message.key.toString(), message.value.toString())
          read += 1
          if (read < count) return
          // kafkajs commits at the end of a batch, and not at all where it is told to stop within one.
          const offset = (BigInt(message.offset) + 1n).toString()
          await consumer.commitOffsets([{ topic, partition, offset }])
          resolve()
        },
      })
      .catch(reject)
  })
  await consumer.disconnect()
}

main().catch((error) => {
  console.error(error)
  process.exit(1)
})
