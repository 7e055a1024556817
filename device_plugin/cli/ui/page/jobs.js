// Jobs of queues: what the page knows of each, in which order, and in which words.

import { moment } from "./axis.js";
import { inNamespace } from "./cluster.js";
import { compared, count, digits, sentence, span } from "./text.js";

const ENDS = { complete: "complete", failed: "failed", gone: "deleted or taken from its queue" };
const HOLDING = new Set(["running", "resizing", "starting", "stopping"]);
const RANKS = { running: 0, waiting: 1, ended: 2 };

/**
 * The Jobs of the place's filter that have something between `from` and now, by queue: each the record of its times, with
 * the live Job as `job`.
 */
export function matching(cluster, place, from) {
  const found = [];
  for (const [key, times] of cluster.of("times")) {
    const { namespace, name, ended } = times;
    if (!inNamespace(namespace, place) || !name.includes(place.name)) continue;
    if (ended !== null && ended < from) continue;
    const row = rowOf(cluster, key);
    if (!place.phase || group(row) === place.phase) found.push(row);
  }
  return found.sort(order);
}

/** A Job by its key; undefined if it is not known any more. */
export function rowOf(cluster, key) {
  const times = cluster.of("times").get(key);
  if (!times) return undefined;
  const { namespace, name, ended } = times;
  const job = ended === null ? cluster.of("job").get(`${namespace}/${name}`) : undefined;
  const planned = job && job.phase !== "unknown" ? job.phase : times.stays.at(-1)[2];
  return { key, times, job, phase: ended === null ? planned : times.outcome, queue: job?.queue || times.queue };
}

/** Whether a Job waits, holds cards, or has ended: the words of the filter. */
export function group({ times, phase }) {
  if (times.ended !== null) return "ended";
  return HOLDING.has(phase) ? "running" : "waiting";
}

/** By queue; those that hold cards, those that wait by their place, those that ended the newest first. */
function order(one, other) {
  return compared(one.queue, other.queue) || RANKS[group(one)] - RANKS[group(other)]
    || compared(other.times.ended ?? 0, one.times.ended ?? 0)
    || compared(one.job?.place || Infinity, other.job?.place || Infinity)
    || compared(one.times.namespace, other.times.namespace) || compared(one.times.name, other.times.name);
}

/** How many Jobs of a queue are in each phase, as a sentence. */
export function tally(queue, rows) {
  const counts = new Map();
  for (const row of rows) {
    const name = row.times.ended === null ? row.phase : "ended";
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return `Queue ${queue || "(none)"}: ${[...counts].map(([phase, number]) => `${digits(number)} ${phase}`).join(", ")}`;
}

/** The widest that a Job is or may be, which its row has the height for. */
export function widest({ times, job }) {
  const bound = Number(job?.max) || 0;
  const listed = Array.isArray(job?.widths) ? job.widths : [];
  return Math.max(1, bound, job?.expected?.width ?? 0, ...listed.map((each) => Number(each) || 0), ...times.stays.map(([, width]) => width));
}

/** The width of a Job at a time, null where it is not known. */
export function widthAt({ times }, at) {
  if (at < times.stays[0][0] || (times.ended !== null && at >= times.ended)) return 0;
  if (at < times.seen) return null;
  return times.stays.findLast(([from]) => from <= at)?.[1] ?? 0;
}

/** The state in a few words, for the row. */
export function state(row) {
  const { times, job, phase } = row;
  if (times.ended !== null) return ENDS[times.outcome] ?? times.outcome;
  const width = job ? Number(job.width) : times.stays.at(-1)[1];
  const many = width ? `, ${count(width, "pod")}` : "";
  const done = job?.progress?.total ? `, ${percent(job.progress)} %` : "";
  return `${phase}${job?.place ? `, number ${job.place}` : ""}${many}${done}`;
}

/** How much of the work is done, in percent; less than 100 until all of it is. */
export function percent({ done, total }) {
  return Math.floor((Math.min(done, total) / total) * 100);
}

/** What there is to say about a Job, as sentences. */
export function lines(row) {
  const { times, job } = row;
  const last = times.stays.at(-1);
  const now = Date.now() / 1000;
  const texts = [];
  if (times.ended !== null) texts.push(`${state(row)} at ${moment(times.ended)}`);
  else texts.push(`${state(row)}${job ? pods(job) : ""}, for ${span(now - (job?.since || last[0]))}`);
  if (job?.why) texts.push(job.why);
  else if (job?.waitsFor) texts.push(`waits for ${job.waitsFor}`);
  if (job?.progress?.total) {
    const left = job.secondsLeft ? `, about ${span(job.secondsLeft)} left` : "";
    texts.push(`${digits(job.progress.done)} of ${digits(job.progress.total)} done${left}`);
  }
  if (job?.secondsStuck) texts.push(`no progress for ${span(job.secondsStuck)}, which is unusual for it`);
  texts.push(...forecast(job));
  return texts.map(sentence).filter(Boolean);
}

/** The forecast, as texts. */
function forecast(job) {
  const texts = [];
  const expected = job?.expected;
  if (expected?.start) texts.push(`expected to start at ${moment(expected.start)} with ${count(expected.width, "pod")}`);
  if (expected?.promised) texts.push("cards are kept for it");
  if (expected?.end) texts.push(`expected to end at ${moment(expected.end)}`);
  const next = job?.nextChange;
  if (next && !expected?.start) texts.push(next.until ? `${next.what} by ${moment(next.until)}` : `${next.what} from ${moment(next.from)} on`);
  return texts;
}

/** The widths that a Job may have, as a part of a sentence. */
function pods(job) {
  const listed = String(job.widths ?? "").replaceAll(",", ", ");
  const elastic = (job.min || job.max) && Number(job.min) !== Number(job.max);
  const bounds = listed || (elastic ? `${job.min || 1} to ${job.max || "any number"}` : "");
  return bounds && ` (may have ${bounds})`;
}
