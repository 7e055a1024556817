// Jobs of queues: what the page knows of each, in which order, and in which words.

import { moment } from "./axis.js";
import { inNamespace } from "./cluster.js";
import { known, t } from "./language.js";
import { compared, sentence, span } from "./text.js";

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
  const phases = [...counts].map(([phase, n]) => t("n-in-phase", { n, phase: known("phase-", phase) })).join(t("list-comma"));
  return t("queue-tally", { queue: queue || t("no-queue"), phases });
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
  if (times.ended !== null) return times.outcome === "gone" ? t("gone") : known("phase-", times.outcome);
  const width = job ? Number(job.width) : times.stays.at(-1)[1];
  const many = width ? t("with-n", { what: t("n-pods", { n: width }) }) : "";
  const done = job?.progress?.total ? t("progress-percent", { n: percent(job.progress) }) : "";
  return `${known("phase-", phase)}${job?.place ? t("place", { n: job.place }) : ""}${many}${done}`;
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
  if (times.ended !== null) texts.push(t("state-at", { state: state(row), time: moment(times.ended) }));
  else texts.push(t("state-for", { state: `${state(row)}${job ? pods(job) : ""}`, time: span(now - (job?.since || last[0])) }));
  if (job?.why) texts.push(job.why);
  else if (job?.waitsFor) texts.push(t("waits-for", { what: job.waitsFor }));
  if (job?.progress?.total) {
    const { done, total } = job.progress;
    texts.push(t(job.secondsLeft ? "done-left" : "done", { done, total, time: span(job.secondsLeft ?? 0) }));
  }
  if (job?.secondsStuck) texts.push(t("stuck", { time: span(job.secondsStuck) }));
  texts.push(...forecast(job));
  return texts.map(sentence).filter(Boolean);
}

/** The forecast, as texts. */
function forecast(job) {
  const texts = [];
  const expected = job?.expected;
  if (expected?.start) texts.push(t("starts", { time: moment(expected.start), pods: t("n-pods", { n: expected.width }) }));
  if (expected?.promised) texts.push(t("kept"));
  if (expected?.end) texts.push(t("ends", { time: moment(expected.end) }));
  const next = job?.nextChange;
  if (next && !expected?.start) texts.push(t(next.until ? "change-by" : "change-from", { what: next.what, time: moment(next.until || next.from) }));
  return texts;
}

/** The widths that a Job may have, as a part of a sentence. */
function pods(job) {
  const listed = String(job.widths ?? "").replaceAll(",", t("list-comma"));
  const elastic = (job.min || job.max) && Number(job.min) !== Number(job.max);
  const bounds = listed || (elastic ? t("from-to", { least: String(job.min || 1), most: String(job.max || t("any-number")) }) : "");
  return bounds && t("may-have", { widths: bounds });
}
