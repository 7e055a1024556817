// A line of values from 0 to 1 over time, with axes, and a cursor that follows the pointer and the arrow keys.

import { Axis, moment, tickMarks } from "./axis.js";
import { known, t } from "./language.js";
import { element, say } from "./text.js";

const SVG = "http://www.w3.org/2000/svg";
// The drawing's own units: its width, and the heights of 100 %, 50 % and 0 %.
const WIDTH = 600;
const TOP = 4;
const MIDDLE = 46;
const BOTTOM = 88;
const APART = 64;
// Pixels of the axis of a panel, for the places of its ticks; these are shares of the width.
const NEARLY = 330;

/** The elements of a chart: its title with the value of now, and the drawing. */
export function lineChart(name, pairs, { from, to, step }) {
  const title = known("series-", name);
  if (!pairs.length) return [element("p", "soft", t("series", { name: title, value: t("no-values") }))];
  const [when, last] = pairs.at(-1);
  const now = to - when < 2 * step ? t("now-is", { share: percent(last) }) : t("not-known-now");
  const label = element("p", "soft", t("series", { name: title, value: now }));
  const plot = element("div", "plot");
  const chart = drawing(pairs, from, to);
  const cursor = element("i", "cursor");
  cursor.hidden = true;
  const read = element("span", "read");
  plot.append(...scale(), chart, cursor, read);
  followed(plot, cursor, read, title, pairs, { from, to });
  const axis = element("div", "axis");
  axis.setAttribute("aria-hidden", "true");
  axis.append(...tickMarks(new Axis(from, to, NEARLY), APART, (kind, x, text) => {
    const mark = element("span", kind, text);
    mark.style.left = `${(x / NEARLY) * 100}%`;
    return mark;
  }));
  return [label, plot, axis];
}

function drawing(pairs, from, to) {
  const chart = document.createElementNS(SVG, "svg");
  chart.setAttribute("class", "chart");
  chart.setAttribute("viewBox", `0 0 ${WIDTH} 90`);
  chart.setAttribute("preserveAspectRatio", "none");
  chart.setAttribute("aria-hidden", "true");
  const at = ([when, value]) =>
    [((when - from) / (to - from)) * WIDTH, BOTTOM - Math.min(1, value) * (BOTTOM - TOP)].map((n) => n.toFixed(1)).join(" ");
  const lines = [TOP, MIDDLE, BOTTOM].map((y) => `M0 ${y}H${WIDTH}`).join("");
  chart.append(path("scale", lines), path("values", `M${pairs.map(at).join("L")}`));
  return chart;
}

function path(name, points) {
  const made = document.createElementNS(SVG, "path");
  made.setAttribute("class", name);
  made.setAttribute("d", points);
  made.setAttribute("vector-effect", "non-scaling-stroke");
  return made;
}

/** The texts at the lines of the scale. */
function scale() {
  return [[TOP, "100 %"], [MIDDLE, "50 %"], [BOTTOM, "0 %"]].map(([y, text]) => {
    const made = element("span", "at", text);
    made.setAttribute("aria-hidden", "true");
    made.style.top = `${(y / 90) * 100}%`;
    return made;
  });
}

/** Let the cursor follow the pointer and the keys; to screen readers it is a slider over the values. */
function followed(plot, cursor, read, title, pairs, { from, to }) {
  let i = pairs.length - 1;
  const words = () => t("at-value", { time: moment(pairs[i][0]), value: percent(pairs[i][1]) });
  const value = () => {
    plot.setAttribute("aria-valuenow", String(i));
    plot.setAttribute("aria-valuetext", words());
  };
  const show = (next) => {
    i = Math.max(0, Math.min(pairs.length - 1, next));
    value();
    cursor.hidden = false;
    cursor.style.left = `${((pairs[i][0] - from) / (to - from)) * 100}%`;
    say(read, words());
  };
  const hide = () => {
    cursor.hidden = true;
    say(read, "");
  };
  plot.tabIndex = 0;
  plot.setAttribute("role", "slider");
  plot.setAttribute("aria-label", t("over-time", { name }));
  plot.setAttribute("aria-valuemin", "0");
  plot.setAttribute("aria-valuemax", String(pairs.length - 1));
  value();
  plot.addEventListener("pointermove", (event) => {
    const box = plot.getBoundingClientRect();
    show(nearest(pairs, from + ((event.clientX - box.left) / box.width) * (to - from)));
  });
  plot.addEventListener("pointerleave", hide);
  plot.addEventListener("focus", () => show(i));
  plot.addEventListener("blur", hide);
  plot.addEventListener("keydown", (event) => {
    const next = { ArrowLeft: i - 1, ArrowRight: i + 1, Home: 0, End: pairs.length - 1, PageUp: i - 10, PageDown: i + 10 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    show(next);
  });
}

/** The index of the value whose time is nearest. */
function nearest(pairs, at) {
  let found = 0;
  pairs.forEach(([when], i) => {
    if (Math.abs(when - at) < Math.abs(pairs[found][0] - at)) found = i;
  });
  return found;
}

function percent(share) {
  return `${Math.round(share * 100)} %`;
}
