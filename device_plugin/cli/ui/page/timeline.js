// Jobs over time: a row for each, below the name of its queue. The height of a bar is the Job's width, so that one sees it
// grow, shrink and stop; right of now the forecast is hatched.

import { Axis, moment, tickMarks } from "./axis.js";
import { hue } from "./color.js";
import { lines, percent, state, tally, widest, widthAt } from "./jobs.js";
import { t } from "./language.js";
import { Rows } from "./rows.js";
import { element, named, say, sentence } from "./text.js";

// Heights in pixels, as the stylesheet has them: a row, the bar of the largest width, a queue's line, a name above its bar.
const ROW = 42;
const BAR = 26;
const HEADING = 40;
const NAME = 22;
// The least height of a bar that is not empty, and the width below which names stand above the bars.
const LEAST = 4;
const NARROW = 720;
// The part of the time that lies before now, and the least pixels between two ticks.
const PAST = 2 / 3;
const APART = 90;
const SVG = "http://www.w3.org/2000/svg";

export class Timeline {
  /** `open(key)` is called for a Job that somebody chooses. */
  constructor(root, axis, tip, open) {
    Object.assign(this, { root, axisRoot: axis, tip, open });
    this.at = "";
    this.rows = new Rows(root, {
      key: (item) => item.key,
      kind: (item) => (item.heading ? "queue" : "job"),
      make: { queue: makeHeading, job: makeRow },
      fill: (row, item, scale) => (item.heading ? say(row.title, item.heading) : fillRow(row, item, scale)),
      number: (row, i) => {
        row.root.setAttribute("aria-posinset", String(i + 1));
        const size = String(this.rows.items.length);
        if (row.root.getAttribute("aria-setsize") !== size) row.root.setAttribute("aria-setsize", size);
      },
      drawn: () => this.rove(),
    });
    root.addEventListener("click", (event) => {
      const key = keyOf(event);
      if (key) this.open(key);
    });
    root.addEventListener("keydown", (event) => this.pressed(event));
    root.addEventListener("focusin", (event) => {
      this.at = keyOf(event) || this.at;
      this.rove();
      this.explain(event.target.closest(".job"));
    });
    root.addEventListener("focusout", () => this.hide());
    root.addEventListener("pointermove", (event) => this.explain(event.target.closest(".job"), event.clientX));
    root.addEventListener("pointerleave", () => this.hide());
  }

  /** The number of Jobs that are shown. */
  get jobs() {
    return this.rows.items.filter((item) => !item.heading).length;
  }

  /** Since when Jobs are shown, for a span of hours. */
  static from(hours) {
    return Date.now() / 1000 - hours * 3600 * PAST;
  }

  /** Show Jobs, which are in the order of their queues, over a span of hours. */
  show(found, hours, chosen) {
    const width = this.root.clientWidth;
    this.narrow = width < NARROW;
    this.root.classList.toggle("narrow", this.narrow);
    this.axisRoot.classList.toggle("narrow", this.narrow);
    const from = Timeline.from(hours);
    const left = this.narrow ? 0 : nameWidth(this.root);
    this.left = left;
    this.scale = new Axis(from, from + hours * 3600, Math.max(1, width - left));
    this.scale.now = Date.now() / 1000;
    this.scale.chosen = chosen;
    this.drawAxis();
    this.rows.show(grouped(found), this.scale, (item) => (item.heading ? HEADING : ROW + (this.narrow ? NAME : 0)));
  }

  drawAxis() {
    const { scale, left } = this;
    const key = `${scale.width} ${scale.ticks(APART).map(Math.round)} ${scale.x(scale.now)} ${scale.from}`;
    if (this.axisKey === key) return;
    this.axisKey = key;
    const made = tickMarks(scale, APART, (name, x, text) => {
      const mark = element("span", name, text);
      mark.style.left = `${left + x}px`;
      return mark;
    }, scale.now);
    this.axisRoot.replaceChildren(...made);
    this.lines ??= element("div", "lines");
    this.lines.replaceChildren(...made.map((mark) => {
      const line = element("i", mark.className);
      line.style.left = mark.style.left;
      return line;
    }));
    if (!this.cursor) {
      this.cursor = element("i", "cursor");
      this.cursor.hidden = true;
    }
    if (!this.lines.parentNode) this.root.prepend(this.lines, this.cursor);
  }

  /** Make the rows in sight, after somebody scrolled; what is said stays with the row that has the focus. */
  draw() {
    this.rows.draw();
    if (this.told && this.told === document.activeElement?.closest(".job")) this.explain(this.told);
    else this.hide();
  }

  /** One Job of all can be reached by Tab: the last that had the focus, or the first in sight. */
  rove() {
    const { rows, items } = this.rows;
    if (!rows.get(this.at)?.button) this.at = items.find((item) => rows.get(item.key)?.button)?.key ?? "";
    const wanted = rows.get(this.at)?.button;
    if (this.roving !== wanted) {
      if (this.roving) this.roving.tabIndex = -1;
      if (wanted) wanted.tabIndex = 0;
      this.roving = wanted;
    }
  }

  /** Give the focus to a Job. */
  focus(key) {
    this.at = key;
    this.rows.reveal(key)?.button?.focus({ preventScroll: true });
  }

  pressed(event) {
    if (event.key === "Escape") this.hide();
    if (event.ctrlKey || event.metaKey || event.altKey || !keyOf(event)) return;
    const among = this.rows.items.filter((item) => !item.heading);
    const i = among.findIndex((item) => item.key === keyOf(event));
    const page = Math.max(1, Math.floor(innerHeight / ROW) - 4);
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -among.length, End: among.length }[event.key];
    if (i < 0 || !step) return;
    event.preventDefault();
    this.focus(among[Math.max(0, Math.min(among.length - 1, i + step))].key);
  }

  /** Say at a row what there is to say about its Job, and at the pointer which width it had then. */
  explain(root, pointer = null) {
    const item = root && this.rows.rows.get(root.dataset.key)?.item;
    if (!item) {
      this.hide();
      return;
    }
    this.told = root;
    const texts = lines(item);
    const x = pointer === null ? -1 : pointer - this.root.getBoundingClientRect().left - this.left;
    this.cursor.hidden = x < 0;
    if (x >= 0) {
      this.cursor.style.left = `${this.left + x}px`;
      texts.push(atCursor(item, this.scale.at(x), this.scale.now));
    }
    this.tip.replaceChildren(named("b", "", item.times.name), ...texts.filter(Boolean).map((text) => named("span", "", text)));
    this.tip.hidden = false;
    const box = root.getBoundingClientRect();
    const { offsetWidth: wide, offsetHeight: high } = this.tip;
    const left = pointer === null ? box.left + this.left : pointer + 14;
    this.tip.style.left = `${Math.max(8, Math.min(left, document.documentElement.clientWidth - wide - 8))}px`;
    const below = box.bottom + 4;
    this.tip.style.top = `${below + high < innerHeight ? below : Math.max(4, box.top - high - 4)}px`;
  }

  hide() {
    this.tip.hidden = true;
    this.told = null;
    if (this.cursor) this.cursor.hidden = true;
  }
}

function keyOf(event) {
  return event.target.closest?.(".job")?.dataset.key ?? "";
}

/** The pixels that names take, as the stylesheet has them. */
function nameWidth(root) {
  return parseFloat(getComputedStyle(root).getPropertyValue("--names"));
}

/** The Jobs with a line above those of each queue. */
function grouped(found) {
  const queues = new Map();
  for (const row of found) {
    if (!queues.has(row.queue)) queues.set(row.queue, []);
    queues.get(row.queue).push(row);
  }
  return [...queues].flatMap(([queue, rows]) => [{ key: `queue ${queue}`, heading: tally(queue, rows) }, ...rows]);
}

/** The width of a Job at the cursor's time, as a sentence. */
function atCursor(item, at, now) {
  const width = widthAt(item, at);
  if (at > now) return "";
  if (width === null) return t("at-value", { time: moment(at), value: t("not-started") });
  return sentence(t("at-value", { time: moment(at), value: width ? t("n-pods", { n: width }) : t("no-pods") }));
}

function makeHeading() {
  const root = element("div", "row queue");
  root.setAttribute("role", "listitem");
  const title = element("h2");
  root.append(title);
  return { root, title };
}

function makeRow() {
  const root = element("div", "row job");
  root.setAttribute("role", "listitem");
  const button = element("button", "jobrow");
  button.type = "button";
  button.tabIndex = -1;
  const who = element("span", "who");
  const name = named("b", "", "");
  const about = named("span", "", "");
  who.append(name, about);
  const track = element("span", "track");
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("aria-hidden", "true");
  svg.setAttribute("height", String(BAR));
  const paths = {};
  for (const part of ["before", "idle", "known"]) {
    paths[part] = document.createElementNS(SVG, "path");
    paths[part].setAttribute("class", part);
    svg.append(paths[part]);
  }
  const expected = element("i", "expected");
  const progress = element("i", "progress");
  progress.append(element("i"));
  track.append(svg, expected, progress);
  button.append(who, track);
  root.append(button);
  return { root, button, name: name.firstChild, about: about.firstChild, track, svg, paths, points: {}, expected, progress };
}

function fillRow(row, item, scale) {
  const { times } = item;
  say(row.name, times.name);
  say(row.about, `${times.namespace} · ${state(item)}`);
  const label = t("job-label", { name: times.name, namespace: times.namespace, lines: lines(item).join(" ") });
  if (row.label !== label) row.button.setAttribute("aria-label", (row.label = label));
  const pressed = String(scale.chosen === item.key);
  if (row.button.getAttribute("aria-pressed") !== pressed) row.button.setAttribute("aria-pressed", pressed);
  const color = hue(times.namespace);
  if (row.color !== color) row.track.style.color = row.color = color;
  if (row.width !== scale.width) row.svg.setAttribute("width", String((row.width = scale.width)));
  const most = widest(item);
  for (const [part, points] of Object.entries(shape(times, most, scale))) {
    if (row.points[part] !== points) row.paths[part].setAttribute("d", (row.points[part] = points));
  }
  fillExpected(row.expected, item, most, scale);
  fillProgress(row.progress, item, scale);
}

/** The height of a width's bar. */
function high(width, most) {
  return width ? Math.max(LEAST, Math.round((Math.min(width, most) / most) * BAR)) : 0;
}

/**
 * The outlines of a Job's past: what the command saw, what was before, of which only the times are known, and the times
 * without pods.
 */
function shape(times, most, scale) {
  const end = Math.min(times.ended ?? scale.now, scale.to);
  const found = { before: "", idle: "", known: "" };
  let open = false;
  const close = (x) => {
    if (open) found.known += `H${x}V${BAR}Z`;
    open = false;
  };
  times.stays.forEach(([at, width], i) => {
    const until = Math.min(times.stays[i + 1]?.[0] ?? end, end);
    const cut = Math.max(at, Math.min(times.seen, until));
    const [left, middle, right] = [at, cut, until].map((each) => scale.x(each));
    if (until <= scale.from || right < left) return;
    if (!width) {
      close(left);
      found.idle += `M${left} ${BAR - 1}H${right}`;
      return;
    }
    const y = BAR - high(width, most);
    if (middle > left) found.before += `M${left} ${BAR}V${y}H${middle}V${BAR}Z`;
    if (right <= middle) return;
    found.known += open ? `H${middle}V${y}` : `M${middle} ${BAR}V${y}`;
    open = true;
  });
  close(scale.x(end));
  return found;
}

/** The forecast: of a Job that runs until its end, of one that waits from its start on, open where its end is not known. */
function fillExpected(root, { times, job }, most, scale) {
  const expected = times.ended === null ? job?.expected : null;
  const start = expected && (expected.start ?? (expected.end ? scale.now : null));
  root.hidden = !start || Math.max(start, scale.now) >= scale.to;
  if (root.hidden) return;
  const left = scale.x(Math.max(start, scale.now));
  const right = expected.end ? scale.x(Math.max(expected.end, scale.now)) : scale.width;
  root.style.left = `${left}px`;
  root.style.width = `${Math.max(3, right - left)}px`;
  root.style.height = `${high(expected.width, most)}px`;
  root.classList.toggle("open", !expected.end || expected.end > scale.to);
  root.classList.toggle("promised", expected.promised);
}

/** The finished part of the work, as a line from the first pods to the expected end. */
function fillProgress(root, { times, job }, scale) {
  const progress = times.ended === null ? job?.progress : null;
  const began = times.stays.find(([, width]) => width)?.[0];
  root.hidden = !progress?.total || began === undefined;
  if (root.hidden) return;
  const left = scale.x(began);
  const right = scale.x(Math.max(job.expected?.end ?? scale.now, scale.now));
  root.style.left = `${left}px`;
  root.style.width = `${Math.max(0, right - left)}px`;
  root.firstChild.style.width = `${percent(progress)}%`;
}
