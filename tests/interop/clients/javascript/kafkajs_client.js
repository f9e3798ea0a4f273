// The steps of steps.py with kafkajs. It has no consumer without a group: `read` and `seek` use
// groups of their own. Header names keep no order in it, and a header without value is left out.
"use strict";

const fs = require("fs");
const { randomUUID } = require("crypto");
const { createRequire } = require("module");

const { Kafka, CompressionTypes, logLevel } = createRequire(process.env.KAFKAJS_HOME + "/")("kafkajs");

const DEADLINE_MS = 40000;
const CODECS = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP };

const toText = (data) => (data === null || data === undefined ? "-" : "x" + Buffer.from(data).toString("hex"));
const fromText = (text) => (text === "-" ? null : Buffer.from(text.slice(1), "hex"));
const pairsText = (pairs) => pairs.sort((a, b) => a[0] - b[0]).map(([p, v]) => `${p}:${v}`).join(",");

function readItems(path) {
  const lines = fs.readFileSync(path, "ascii").split("\n").filter((line) => line);
  return lines.map((line) => {
    const [partition, , timestamp, key, value, pairs] = line.split("\t");
    const headers = {};
    for (const pair of pairs.split(",").filter((p) => p)) {
      const at = pair.indexOf("=");
      const name = pair.slice(0, at);
      const data = fromText(pair.slice(at + 1));
      headers[name] = name in headers ? [].concat(headers[name], [data]) : data;
    }
    return { partition: Number(partition), timestamp, key: fromText(key), value: fromText(value), headers };
  });
}

function writeItems(path, items) {
  items.sort((a, b) => a.partition - b.partition || a.offset - b.offset);
  const lines = items.map((item) => {
    const headers = [];
    for (const [name, values] of Object.entries(item.headers)) {
      for (const value of Array.isArray(values) ? values : [values]) headers.push(`${name}=${toText(value)}`);
    }
    const numbers = `${item.partition}\t${item.offset}\t${item.timestamp}`;
    return `${numbers}\t${toText(item.key)}\t${toText(item.value)}\t${headers.join(",")}\n`;
  });
  fs.writeFileSync(path, lines.join(""));
}

class KafkajsClient {
  constructor(bootstrap) {
    this.kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.NOTHING });
    this.admin = this.kafka.admin();
  }

  async create(topic, partitions, ...configs) {
    const configEntries = configs.map((pair) => ({ name: pair.split("=")[0], value: pair.split("=")[1] }));
    const topics = [{ topic, numPartitions: Number(partitions), replicationFactor: 1, configEntries }];
    await this.admin.createTopics({ topics });
  }

  async create_partitions(topic, count) {
    await this.admin.createPartitions({ topicPartitions: [{ topic, count: Number(count) }] });
  }

  async produce(topic, codec, idempotent, path) {
    const producer = this.kafka.producer({ idempotent: idempotent === "1", maxInFlightRequests: 1 });
    await producer.connect();
    const messages = readItems(path);
    await producer.send({ topic, messages, acks: -1, compression: CODECS[codec] });
    await producer.disconnect();
    return messages.length;
  }

  // Runs a group until `count` records are there; `starts` seeks partitions first.
  async collect(topic, group, count, starts, commit) {
    const consumer = this.kafka.consumer({ groupId: group, maxWaitTimeInMs: 200 });
    const items = [];
    await consumer.connect();
    await consumer.subscribe({ topics: [topic], fromBeginning: true });
    await new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`read ${items.length} of ${count}`)), DEADLINE_MS);
      consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error));
      const finish = () => { clearTimeout(timer); resolve(); };
      if (count === 0) finish();
      consumer.run({
        autoCommit: false,
        eachMessage: async ({ partition, message }) => {
          if (starts && Number(message.offset) < starts.get(partition)) return;
          items.push({ ...message, partition, offset: Number(message.offset), headers: message.headers || {} });
          if (items.length >= count) finish();
        },
      }).catch(reject);
      for (const [partition, offset] of starts || []) consumer.seek({ topic, partition, offset: String(offset) });
    });
    if (commit) {
      const next = new Map();
      for (const item of items) next.set(item.partition, Math.max(next.get(item.partition) || 0, item.offset + 1));
      await consumer.commitOffsets([...next].map(([partition, o]) => ({ topic, partition, offset: String(o) })));
    }
    await consumer.disconnect();
    return items;
  }

  async consume(topic, group, count, path) {
    writeItems(path, await this.collect(topic, group, Number(count), null, true));
    return count;
  }

  async read(topic, count, path) {
    writeItems(path, await this.collect(topic, `reader-${randomUUID()}`, Number(count), null, false));
    return count;
  }

  async seek(topic, timestamp, path) {
    const found = await this.admin.fetchTopicOffsetsByTimestamp(topic, Number(timestamp));
    const ends = await this.admin.fetchTopicOffsets(topic);
    const starts = new Map(found.map((entry) => [entry.partition, Number(entry.offset)]));
    let count = 0;
    for (const entry of ends) count += Number(entry.high) - starts.get(entry.partition);
    writeItems(path, await this.collect(topic, `seeker-${randomUUID()}`, count, starts, false));
    return pairsText([...starts]);
  }

  async offsets(topic) {
    const entries = await this.admin.fetchTopicOffsets(topic);
    return pairsText(entries.map((entry) => [entry.partition, `${entry.low}:${entry.high}`]));
  }

  async committed(groupId, topic) {
    const [entry] = await this.admin.fetchOffsets({ groupId, topics: [topic] });
    return pairsText(entry.partitions.map((p) => [p.partition, p.offset]));
  }

  async config(name, key) {
    const answer = await this.admin.describeConfigs({ includeSynonyms: false, resources: [{ type: 2, name }] });
    return answer.resources[0].configEntries.find((entry) => entry.configName === key).configValue;
  }

  async alter_config(name, key, value) {
    const resources = [{ type: 2, name, configEntries: [{ name: key, value }] }];
    await this.admin.alterConfigs({ validateOnly: false, resources });
  }

  async topics() {
    return (await this.admin.listTopics()).sort().join(",");
  }

  async groups() {
    return (await this.admin.listGroups()).groups.map((group) => group.groupId).sort().join(",");
  }

  async delete(topic) {
    await this.admin.deleteTopics({ topics: [topic] });
  }

  async delete_group(group) {
    await this.admin.deleteGroups([group]);
  }
}

async function main() {
  const client = new KafkajsClient(process.argv[2]);
  await client.admin.connect();
  const plan = fs.readFileSync(process.argv[3], "ascii").split("\n").filter((line) => line);
  for (const line of plan) {
    const [name, ...args] = line.split("\t");
    const answer = await client[name](...args);
    console.log(`result\t${answer === undefined ? "ok" : answer}`);
  }
  await client.admin.disconnect();
}

main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
