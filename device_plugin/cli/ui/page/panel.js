// One card at large: what it has, its core groups one by one, who holds what of it, and its use over time.

import { groupParts, memoryParts, paint, tint } from "./bars.js";
import { aged, count, element, memory, named, ranges, say } from "./text.js";

const STATES = {
  reserved: "reserved, not bound yet",
  outliving: "its pod has ended, its processes have not",
  covered: "something covers the files that limit it",
  unenforced: "uses the card past the library that limits it",
};
const CLOSED = {
  unhealthy: "Unhealthy: its driver reports a fault, and it gets no new slices.",
  cordoned: "Cordoned: an operator keeps new slices away.",
  short: "It reports less than was granted of it: it gets no new slices until enough of these have ended.",
};
const SVG = "http://www.w3.org/2000/svg";

export class Panel {
  /** `close()` is called when somebody closes it; `use(node, card)` gives the use over time, if that is known. */
  constructor(root, close, use) {
    this.root = root;
    this.use = use;
    this.key = "";
    root.addEventListener("click", (event) => event.target.closest(".close") && close());
    root.addEventListener("keydown", (event) => event.key === "Escape" && close());
  }

  hide() {
    this.root.hidden = true;
    this.root.replaceChildren();
    this.key = "";
    this.card = null;
  }

  /** Show a card as it is now. */
  show(node, card, place) {
    const key = `${node.name}/${card.uuid}`;
    if (this.key !== key) {
      this.key = key;
      this.root.hidden = false;
      this.root.scrollTop = 0;
      this.build(node, card);
      this.history(node.name, card.uuid);
    } else if (this.card === card && this.place === place) return;
    this.card = card;
    this.place = place;
    this.fill(node, card, place);
  }

  focus() {
    this.title?.focus({ preventScroll: true });
  }

  build(node, card) {
    const head = element("header");
    this.title = named("h2", "", card.uuid);
    this.title.id = "panel-title";
    this.title.tabIndex = -1;
    const close = element("button", "close", "×");
    close.type = "button";
    close.setAttribute("aria-label", "Close the card");
    head.append(this.title, close);
    this.where = named("p", "soft", `${node.name}${card.model ? `, ${card.model}` : ""}${card.family ? `, ${card.family}` : ""}`);
    this.state = element("p", "state");
    this.facts = element("dl", "facts");
    this.memory = element("div", "big");
    this.units = element("div", "units");
    this.slices = element("div");
    this.slicesTitle = element("h3");
    this.chart = element("div");
    this.unitsTitle = element("h3", "", "Core groups");
    this.root.replaceChildren(
      head, this.where, this.state, this.facts, element("h3", "", "Memory"), this.memory, this.unitsTitle, this.units,
      this.chart, this.slicesTitle, this.slices,
    );
  }

  fill(node, card, place) {
    say(this.state, CLOSED[card.state] ?? "");
    this.state.hidden = !card.state;
    const facts = node.complete
      ? [
          ["Memory free", `${memory(card.freeMiB)} of ${memory(card.mib)}`],
          ["Core groups free", `${card.freeGroups} of ${card.groups}`],
          ["Slices", `${card.slices.length}, room for ${card.room ? card.free : 0} more`],
        ]
      : [["Memory", memory(card.mib)], ["Slices that you may see", String(card.slices.length)]];
    this.facts.replaceChildren(...facts.flatMap(([name, text]) => [element("dt", "", name), element("dd", "", text)]));
    paint(this.memory, memoryParts(card, place, node.name), card.mib);
    const tints = new Array(card.groups).fill("");
    for (const [from, to, name] of groupParts(card, place, node.name)) tints.fill(name, from, Math.min(to, card.groups));
    while (this.units.childElementCount > card.groups) this.units.lastChild.remove();
    while (this.units.childElementCount < card.groups) this.units.append(element("i"));
    [...this.units.children].forEach((unit, i) => {
      const name = tints[i] ? `tint-${tints[i]}` : "";
      if (unit.className !== name) unit.className = name;
    });
    say(this.slicesTitle, card.slices.length ? count(card.slices.length, "slice") : "No slices");
    this.slices.replaceChildren(...card.slices.map((slice, i) => sliceLine(slice, tint(slice, i, place, node.name))));
  }

  /** Ask for the use over time and draw it, unless another card is shown meanwhile. */
  async history(node, card) {
    const key = this.key;
    const found = await this.use(node, card);
    if (!found || this.key !== key) return;
    this.chart.append(element("h3", "", "Last 6 hours"));
    if (found.problem) {
      this.chart.append(element("p", "soft", found.problem));
      return;
    }
    for (const [name, pairs] of Object.entries(found.series)) this.chart.append(...series(name, pairs, found.from, found.to));
  }
}

function sliceLine(slice, name) {
  const root = element("div", "slice");
  const mark = element("i", `tint-${name}`);
  const whose = element("div");
  whose.append(named("b", "", slice.pod), named("div", "soft", `${slice.namespace}, container ${slice.container}`));
  if (slice.state) whose.append(element("div", "warn", STATES[slice.state] ?? slice.state));
  const amount = element("div", "amount", memory(slice.mib));
  const groups = slice.cores.reduce((sum, [first, last]) => sum + last - first + 1, 0);
  amount.append(element("div", "soft", count(groups, "group")), aged("div", "soft", slice.since));
  amount.title = `core groups ${ranges(slice.cores)}`;
  root.append(mark, whose, amount);
  return root;
}

/** A line of values from 0 to 1 over time, with its last value as text. */
function series(name, pairs, from, to) {
  const last = pairs.at(-1)?.[1];
  const label = element("p", "soft", last === undefined ? `${name}: no values` : `${name}: now ${Math.round(last * 100)} %`);
  if (last === undefined) return [label];
  const chart = document.createElementNS(SVG, "svg");
  chart.setAttribute("class", "chart");
  chart.setAttribute("viewBox", "0 0 600 90");
  chart.setAttribute("preserveAspectRatio", "none");
  chart.setAttribute("aria-hidden", "true");
  const at = ([when, value]) => [((when - from) / (to - from)) * 600, 88 - Math.min(1, value) * 84].map((n) => n.toFixed(1)).join(" ");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", `M${pairs.map(at).join("L")}`);
  path.setAttribute("fill", "none");
  path.setAttribute("stroke", "currentColor");
  path.setAttribute("stroke-width", "2");
  path.setAttribute("vector-effect", "non-scaling-stroke");
  chart.append(path);
  return [label, chart];
}
