// What a record is, in words that several parts show. Pure.

/**
 * A row as the API gives it.
 * @typedef {{topic: string, partition: number, offset: number, timestamp_ms: number, timestamp_type: string,
 *   key: string | null, key_format: string, key_bytes: number, key_is_cut: boolean, key_schema_id: number | null, key_problem: string | null,
 *   value: string | null, value_format: string, value_bytes: number, value_is_cut: boolean, value_schema_id: number | null, value_problem: string | null,
 *   headers: [string, string | null][], headers_hex?: (string | null)[], header_count: number, leader_epoch: number, is_transactional: boolean | null,
 *   producer_id: number | null, producer_epoch: number | null, is_masked: boolean}} RecordRow
 */

/** Formats that a key or a value may be read in. @type {[string, string][]} */
export const FORMATS = [
  ["auto", "guessed"],
  ["json", "JSON"],
  ["text", "text"],
  ["hex", "hex"],
  ["number", "integer"],
  ["double", "floating point"],
  ["msgpack", "MessagePack"],
];

const DEAD_LETTER_TOPICS = ["__dlq.errors.topic", "__connect.errors.topic", "kafka_dlt-original-topic"];

/** @param {RecordRow} row */
export function placeOf(row) {
  return `${row.partition}:${row.offset}`;
}

/**
 * The topic that a dead letter came from; undefined for other records.
 * @param {RecordRow} row
 */
export function originOf(row) {
  return row.headers.find(([name]) => DEAD_LETTER_TOPICS.includes(name))?.[1] ?? undefined;
}

/**
 * Newest first, or oldest first; of one partition always by offset.
 * @param {RecordRow[]} rows
 * @param {boolean} newestFirst
 */
export function byTime(rows, newestFirst) {
  const sign = newestFirst ? -1 : 1;
  return rows.toSorted((one, other) =>
    one.partition === other.partition
      ? sign * (one.offset - other.offset)
      : sign * (one.timestamp_ms - other.timestamp_ms) || one.partition - other.partition);
}
