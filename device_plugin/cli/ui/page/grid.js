// The nodes and their cards as a grid.

import { busyParts, groupParts, memoryParts, paint } from "./bars.js";
import { hue } from "./color.js";
import { percent } from "./jobs.js";
import { known, t } from "./language.js";
import { Rows } from "./rows.js";
import { element, memory, named, say, shown, span } from "./text.js";
import { cardUse, unused } from "./use.js";

// Heights in pixels, as the stylesheet has them: a line of cards, a row's edges, a name above its cards.
const LINE = 52;
const EDGES = 15;
const NAME = 24;
// The width below which names stand above the cards.
const NARROW = 720;
const NAME_WIDTH = 206;
const LEAST_CARD = 122;
// In a small cluster cards are large: the least width, the height of a holder's line, and the most of these.
const LEAST_LARGE = 300;
const HOLDER = 18;
const LARGE_EDGES = 8;
const MOST_HOLDERS = 6;

export class Grid {
  /** `open(node, card)` is called for a card that somebody chooses. */
  constructor(root, open) {
    this.root = root;
    this.open = open;
    this.at = { node: "", index: 0 };
    this.rows = new Rows(root, {
      key: (node) => node.name,
      kind: () => "node",
      make: { node: makeRow },
      fill: fillRow,
      number: (row, i) => row.root.setAttribute("aria-rowindex", String(i + 1)),
      drawn: () => this.rove(),
    });
    root.addEventListener("click", (event) => this.clicked(event));
    root.addEventListener("keydown", (event) => this.pressed(event));
    root.addEventListener("focusin", (event) => this.focused(event));
  }

  /** The nodes that are shown. */
  get nodes() {
    return this.rows.items;
  }

  /**
   * Show these nodes; the height of a row depends on its cards and on the width. With `jobOf(slice)`, which gives the Job
   * of a slice, cards are large: they name the holders, and the progress of their Jobs.
   */
  show(nodes, place, jobOf = null) {
    this.jobOf = jobOf;
    const width = this.root.clientWidth;
    const narrow = width < NARROW;
    const wide = narrow ? width : width - NAME_WIDTH;
    this.per = (jobOf ? [4, 3, 2] : [8, 4, 2]).find((each) => wide / each >= (jobOf ? LEAST_LARGE : LEAST_CARD)) ?? 1;
    this.root.classList.toggle("narrow", narrow);
    this.root.classList.toggle("large", Boolean(jobOf));
    this.root.style.setProperty("--per", String(this.per));
    this.root.setAttribute("aria-rowcount", String(nodes.length));
    this.root.setAttribute("aria-colcount", String(1 + Math.max(0, ...nodes.slice(0, 1000).map((node) => node.cards.length))));
    const lines = (node) => Math.max(1, Math.ceil(node.cards.length / this.per));
    // Jobs advance while nodes stay as they are, so that large cards are drawn each time.
    const state = { place, jobOf };
    if (jobOf || this.state?.place !== place || this.state.jobOf) this.state = state;
    this.rows.show(nodes, this.state, (node) => lines(node) * lineHeight(holders(node, jobOf)) + EDGES + (narrow ? NAME : 0));
  }

  /** Make the rows in sight. */
  draw() {
    this.rows.draw();
  }

  /** Draw rows whose nodes changed, where they are in sight. */
  update(names) {
    this.rows.update(names);
  }

  /** Bring a node into sight. */
  reveal(name) {
    return this.rows.reveal(name);
  }

  /** Give the focus to a card. */
  focus(name, index) {
    const i = this.rows.index.get(name);
    if (i === undefined) return;
    const most = this.nodes[i].cards.length - 1;
    this.at = { node: name, index: Math.max(0, Math.min(index, most)) };
    this.reveal(name).cards[this.at.index]?.root.focus({ preventScroll: true });
  }

  /** One card of all can be reached by Tab: the last that had the focus, or the first in sight. */
  rove() {
    const { rows } = this.rows;
    if (!rows.has(this.at.node)) {
      const first = this.nodes.find((node) => rows.has(node.name) && node.cards.length);
      this.at = { node: first?.name ?? "", index: 0 };
    }
    const wanted = rows.get(this.at.node)?.cards[this.at.index]?.root;
    if (this.roving !== wanted) {
      if (this.roving) this.roving.tabIndex = -1;
      if (wanted) wanted.tabIndex = 0;
      this.roving = wanted;
    }
  }

  clicked(event) {
    const card = event.target.closest(".card");
    if (card) this.open(card.closest(".row").dataset.key, Number(card.dataset.index));
  }

  focused(event) {
    const card = event.target.closest(".card");
    if (!card) return;
    this.at = { node: card.closest(".row").dataset.key, index: Number(card.dataset.index) };
    this.rove();
  }

  pressed(event) {
    const card = event.target.closest(".card");
    if (!card || event.ctrlKey || event.metaKey || event.altKey) return;
    const { node, index } = this.at;
    const { index: places, tops } = this.rows;
    const i = places.get(node);
    const cards = this.nodes[i].cards.length;
    const page = Math.max(1, Math.floor(innerHeight / (tops[i + 1] - tops[i])) - 2);
    const near = (step) => this.nodes[Math.max(0, Math.min(this.nodes.length - 1, i + step))].name;
    const down = index + this.per < cards;
    const up = index - this.per >= 0;
    const target = {
      ArrowRight: () => [node, index + 1],
      ArrowLeft: () => [node, index - 1],
      ArrowDown: () => (down ? [node, index + this.per] : [near(1), index % this.per]),
      ArrowUp: () => (up ? [node, index - this.per] : [near(-1), index]),
      Home: () => (event.shiftKey ? [node, 0] : [this.nodes[0].name, 0]),
      End: () => (event.shiftKey ? [node, cards - 1] : [this.nodes.at(-1).name, 0]),
      PageDown: () => [near(page), index],
      PageUp: () => [near(-page), index],
    }[event.key]?.();
    if (target) {
      event.preventDefault();
      this.focus(...target);
    }
  }
}

/** The lines for holders that each card of a node has room for. */
function holders(node, jobOf) {
  return jobOf ? Math.min(MOST_HOLDERS, Math.max(1, ...node.cards.map((card) => card.slices.length))) : 0;
}

/** The height of a line of cards with room for so many holders. */
function lineHeight(most) {
  return LINE + (most ? most * HOLDER + LARGE_EDGES : 0);
}

function makeRow() {
  const root = element("div", "row");
  root.setAttribute("role", "row");
  const head = element("div", "node");
  head.setAttribute("role", "rowheader");
  const name = named("b", "", "");
  const about = element("span");
  const warn = element("span", "warn");
  head.append(name, about, warn);
  const cells = element("div", "cells");
  root.append(head, cells);
  return { root, name, about, warn, cells, cards: [] };
}

function fillRow(row, node, { place, jobOf }) {
  say(row.name.firstChild, node.name);
  if (row.name.title !== row.name.textContent) row.name.title = row.name.textContent;
  const hives = node.hives.size > 1 ? t("with-n", { what: t("n-hives", { n: node.hives.size }) }) : "";
  const idle = unused(node.use);
  const about = node.complete ? `${[...node.models].join(t("list-comma")) || t("no-cards")}${hives}` : t("known-from-grants");
  say(row.about, idle ? t("about-unused", { about, idle }) : about);
  row.root.classList.toggle("partial", !node.complete);
  say(row.warn, node.serving ? "" : t("agent-not-serving"));
  while (row.cards.length > node.cards.length) row.cards.pop().cell.remove();
  while (row.cards.length < node.cards.length) {
    const made = makeCard(row.cards.length);
    row.cards.push(made);
    row.cells.append(made.cell);
  }
  const most = holders(node, jobOf);
  row.cells.style.gridAutoRows = most ? `${lineHeight(most)}px` : "";
  node.cards.forEach((card, i) => {
    const held = most ? card.slices.map((slice) => slice.pod || t("others")).join(t("list-comma")) : "";
    fillCard(row.cards[i], node, card, place, held);
    fillHolders(row.cards[i], card, most, jobOf);
  });
}

/** Name the holders of a card, each with its amount, and with what its Job has done. */
function fillHolders(made, card, most, jobOf) {
  const left = card.slices.length - most;
  const seen = most ? card.slices.slice(0, left > 0 ? most - 1 : most) : [];
  const texts = seen.map((slice, i) => [slice.pod || t("others"), `${memory(slice.mib)}${advance(jobOf(slice))}`, slice.namespace ? hue(slice.namespace, i % 2 === 1) : "var(--dim)"]);
  if (most && left > 0) texts.push([t("and-more", { n: left + 1 }), "", ""]);
  const key = JSON.stringify(texts);
  if (made.held === key) return;
  made.held = key;
  made.holders.replaceChildren(...texts.map(([name, amount, color]) => {
    const line = element("span", "holder");
    const mark = element("i");
    mark.style.background = color || "none";
    line.append(mark, named("b", "", name), element("span", "", amount));
    return line;
  }));
}

/** What a Job has done, and how long it takes on, as a part of a line. */
function advance(job) {
  const done = job?.progress?.total ? t("progress-percent", { n: percent(job.progress) }) : "";
  return `${done}${job?.secondsLeft ? t("progress-left", { time: span(job.secondsLeft) }) : ""}`;
}

function makeCard(index) {
  const cell = element("div");
  cell.setAttribute("role", "gridcell");
  const root = element("button", "card");
  root.type = "button";
  root.tabIndex = -1;
  root.dataset.index = String(index);
  root.setAttribute("aria-pressed", "false");
  const bars = [element("span", "memory"), element("span", "groups")];
  const says = element("span", "says");
  const texts = [element("span"), element("span")];
  says.append(...texts);
  const holders = element("span", "holders");
  root.append(...bars, says, holders);
  cell.append(root);
  return { cell, root, bars, texts, holders, index };
}

function fillCard(made, node, card, place, held) {
  made.uuid = card.uuid;
  const pressed = String(place.node === node.name && place.card === card.uuid);
  if (made.root.getAttribute("aria-pressed") !== pressed) made.root.setAttribute("aria-pressed", pressed);
  if (made.root.dataset.state !== card.state) made.root.dataset.state = card.state;
  paint(made.bars[0], memoryParts(card, place, node.name), card.mib);
  paint(made.bars[1], groupParts(card, place, node.name), card.groups, busyParts(card, place, node.name));
  say(made.texts[0], card.room ? memory(card.freeMiB) : fullness(node, card));
  say(made.texts[1], card.room ? t("n-groups", { n: card.freeGroups }) : "");
  const label = `${cardLabel(node, card, made.index)}${held && `: ${shown(held)}`}`;
  if (made.label !== label) made.root.setAttribute("aria-label", (made.label = label));
}

/** Why a card has no room, in a few words; without rights to the node, what is known of it. */
function fullness(node, card) {
  if (card.state) return known("state-", card.state);
  if (!node.complete) return t("n-slices", { n: card.slices.length });
  if (!node.serving) return t("no-agent");
  if (card.freeMiB && card.freeGroups) return t("no-slice-left");
  if (card.freeMiB) return t("no-groups-left");
  return t(card.freeGroups ? "no-memory-left" : "full");
}

function cardLabel(node, card, index) {
  const { freeGroups } = card;
  const groups = t("n-core-groups", { n: card.groups });
  const free = t("card-free", { free: memory(card.freeMiB), memory: memory(card.mib), freeGroups, groups });
  const closed = card.state ? known("state-", card.state) : node.serving ? "" : t("no-agent");
  return [t("card-label", { number: index + 1, node: node.name }), closed, node.complete ? free : "", t("n-slices", { n: card.slices.length }), cardUse(card)]
    .filter(Boolean).join(t("list-comma"));
}
