// Joins the parts: what the stream says goes into the cluster, and once a frame what changed is drawn.

import { allow } from "./actions.js";
import { paint } from "./bars.js";
import { Cluster, inNamespace } from "./cluster.js";
import { choose } from "./color.js";
import { DayStrip } from "./day.js";
import { Grid } from "./grid.js";
import { JobPanel } from "./jobpanel.js";
import { matching, rowOf } from "./jobs.js";
import { known, t, translate } from "./language.js";
import { Legend } from "./legend.js";
import { List } from "./lists.js";
import { CardMap } from "./map.js";
import { Owners } from "./owners.js";
import { Panel } from "./panel.js";
import { loggedIn } from "./login.js";
import { link, read } from "./place.js";
import { LOGIN, change, proof } from "./session.js";
import { ask, follow } from "./stream.js";
import { ages, compared, digits, element, memory, say, sentence } from "./text.js";
import { Timeline } from "./timeline.js";
import { findToken } from "./token.js";
import { turn } from "./turn.js";
import { join, nothing, unused } from "./use.js";
import { VIEWS } from "./views.js";
import { WaitingGroups } from "./waiting.js";

const LIVE = {
  wait: t("connecting"), live: t("live"), late: t("late"), lost: t("lost"), busy: t("busy"),
  refused: t(LOGIN ? "logged-out" : "refused"),
};
// The fields of the filter, by the names of their inputs.
const FIELDS = ["name", "namespace", "model", "state", "reason", "sort", "phase", "span"].map((field) => [`filter-${field}`, field]);
const MOST_NOTICES = 20;
// The hours that the timeline shows, and the milliseconds after which it moves on.
const HOURS = 6;
const MOVES = 5000;
// Milliseconds after which Prometheus is asked again for the day of the nodes.
const DAYS = 600000;
// Nodes from which on a map is worth its place.
const LEAST_MAP = 12;
const MOST_NAMESPACES = 200;
// Milliseconds between changes of what depends on the whole cluster: totals, the map, the lists of the filter.
const WHOLE = 250;
// Milliseconds after which ages are drawn anew.
const AGES = 30000;

const byId = (id) => document.getElementById(id);
translate(byId("language"));
let cluster = new Cluster();
let coming = null;
let place = read();
// The headers that every request needs.
let headers = {};
// Lets buttons make changes, once the server says that it makes them.
let permit = null;
// What the next frame draws: all of it, or only nodes that changed and the whole's figures.
let all = true;
let whole = true;
let names = new Set();
let arrived = 0;
let framed = false;
let loaded = false;
let drawn = 0;
let opener = null;
// The time of day at which the stream was lost, as text.
let heard = "";
// The state of the stream of changes.
let stream = "wait";
// The nodes that the map is to show in a moment.
let mapped = null;
// The timer of the next draw of the whole.
let later = 0;
// The number of entries of a list that fit the filter.
let fits = 0;
// The day of each node by Prometheus, and when it was asked.
let used = null;
let asked = 0;

const grid = new Grid(byId("grid"), openCard);
const map = new CardMap(byId("map-canvas"), (name) => grid.focus(name, 0));
const day = new DayStrip(byId("day"));
const why = (pod) => ask(headers, "/why", { pod }).catch((error) => ({ problem: t("no-answer", { why: error.message }) }));
const waitingList = new List(byId("waiting-rows"), byId("more"), why);
const list = new List(byId("list"), byId("more"), why);
const groups = new WaitingGroups();
const legend = new Legend(byId("legend-spaces"), (namespace) => go({ ...place, namespace }, true));
const owners = new Owners(byId("owners"), byId("owner-rows"));
const timeline = new Timeline(byId("timeline"), byId("axis"), byId("tip"), openJob);
const jobPanel = new JobPanel(byId("panel"));
const panel = new Panel(byId("panel"), openCard, (node, card, hours) =>
  cluster.about.get("page")?.use ? ask(headers, "/use", { node, card, hours }).catch(() => ({ problem: t("no-prometheus") })) : null);

function openCard(node, index) {
  const card = cluster.nodes.get(node)?.cards[index];
  if (!card) return;
  opener = { node, index };
  go({ ...place, node, card: card.uuid });
  panel.focus();
}

function openJob(job) {
  opener = { job };
  go({ ...place, job });
  jobPanel.focus();
}

function closePanel() {
  go({ ...place, node: "", card: "", job: "" });
  if (opener?.job) timeline.focus(opener.job);
  else if (opener) grid.focus(opener.node, opener.index);
  else byId("main").focus();
  opener = null;
}

/** Go to a place; the address says it, and Back leads away from it. */
function go(next, replace = false) {
  history[replace ? "replaceState" : "pushState"](null, "", link(next));
  arrive();
}

function arrive() {
  if (location.hash === "#main") {
    history.replaceState(null, "", link(place));
    byId("main").focus();
    return;
  }
  const before = place;
  place = read();
  if (before.view !== place.view) scrollTo(0, 0);
  for (const [id, field] of FIELDS) {
    if (byId(id).value !== place[field]) byId(id).value = place[field];
  }
  all = true;
  draw();
  if (place.card && before.card !== place.card) grid.reveal(place.node);
  if (before.view !== place.view) announce(t(VIEWS[place.view].title));
}

// Drawing

function frame() {
  if (framed) return;
  framed = true;
  requestAnimationFrame(() => {
    framed = false;
    draw();
    const since = arrived;
    arrived = 0;
    // After the frame is painted; whoever measures the page listens.
    if (since) setTimeout(() => document.dispatchEvent(new CustomEvent("painted", { detail: performance.now() - since })));
  });
}

function draw() {
  const now = performance.now();
  const wholeNow = all || (whole && now - drawn > WHOLE);
  if (wholeNow) {
    drawn = now;
    drawWhole();
    whole = false;
  } else {
    // Figures and rows come from the same objects: rows of a changed node are drawn at once.
    grid.nodes.forEach((node, i) => {
      if (names.has(node.name)) grid.nodes[i] = cluster.nodes.get(node.name) ?? node;
    });
    grid.update(names);
    if (whole && !later) {
      later = setTimeout(() => {
        later = 0;
        frame();
      }, WHOLE);
    }
  }
  drawPanel();
  all = false;
  names = new Set();
}

function drawWhole() {
  // Before the page knows all names it cannot tell which hues are free.
  const recolored = loaded && choose([...cluster.named]);
  if (recolored) map.forget();
  const exact = cluster.named.has(place.namespace);
  if (Boolean(place.exact) !== exact || recolored) place = { ...place, exact };
  const { view } = place;
  const read = cluster.about.get("cluster")?.read;
  document.title = `${t(VIEWS[view].title)} · vgpu`;
  say(byId("title"), t(VIEWS[view].title));
  byId("cards-view").hidden = view !== "cards" || !cluster.nodes.size;
  byId("list-view").hidden = !VIEWS[view].make;
  byId("jobs-view").hidden = view !== "jobs";
  byId("waiting-table").hidden = view !== "waiting";
  byId("list").hidden = view === "waiting";
  drawLegend(view);
  if (view !== "jobs") timeline.hide();
  byId("filter-name").placeholder = t(`${view}-filter`);
  for (const field of document.querySelectorAll("[data-in]")) field.hidden = field.dataset.in !== view;
  drawFilter();
  drawNotices();
  drawLive();
  const shown = view === "cards" ? drawCards() : view === "jobs" ? drawJobs() : drawList(view);
  const filtered = place.name || place.namespace || (view === "cards" && (place.model || place.state)) || (view === "waiting" && place.reason) || (view === "jobs" && place.phase);
  byId("empty").hidden = shown > 0;
  say(byId("empty"), t(!read ? "reading" : filtered ? "nothing-fits" : `${view}-nothing`));
  for (const anchor of document.querySelectorAll("nav a")) {
    const here = anchor.dataset.view === view;
    const href = link({ ...place, node: "", card: "", job: "", view: anchor.dataset.view });
    if (anchor.getAttribute("href") !== href) anchor.setAttribute("href", href);
    if (here) anchor.setAttribute("aria-current", "page");
    else anchor.removeAttribute("aria-current");
  }
  let cards = 0;
  for (const node of cluster.nodes.values()) cards += node.cards.length;
  for (const span of document.querySelectorAll("[data-count]")) {
    const { kind } = VIEWS[span.dataset.count];
    const number = kind ? cluster.of(kind).size : cards;
    say(span, number ? digits(number) : "");
  }
}

function drawCards() {
  if (!cluster.nodes.size) return 0;
  const nodes = cluster.matching(place);
  const sum = { mib: 0, freeMiB: 0, heldMiB: 0, groups: 0, freeGroups: 0, heldGroups: 0, cards: 0, roomy: 0, slices: 0, largest: null };
  const closed = new Map();
  const use = nothing();
  for (const node of nodes) {
    for (const key of ["mib", "freeMiB", "heldMiB", "groups", "freeGroups", "heldGroups", "roomy", "slices"]) sum[key] += node[key];
    sum.cards += node.cards.length;
    join(use, node.use);
    for (const [state, number] of node.closed) closed.set(state, (closed.get(state) ?? 0) + number);
    if (node.largest && (!sum.largest || node.largest.freeMiB > sum.largest.freeMiB)) sum.largest = node.largest;
  }
  const complete = nodes.every((node) => node.complete);
  totals(complete
    ? [
        [t("memory-held"), memory(sum.heldMiB), t("of-to-give", { whole: memory(sum.mib), free: memory(sum.freeMiB) }), sum.heldMiB, sum.mib],
        ...held(use),
        [t("groups-held"), digits(sum.heldGroups), t("of-to-give", { whole: sum.groups, free: sum.freeGroups }), sum.heldGroups, sum.groups],
        [t("cards-full"), digits(sum.cards - sum.roomy), t("of-whole", { whole: sum.cards }), sum.cards - sum.roomy, sum.cards],
        [t("largest-free"), sum.largest ? memory(sum.largest.freeMiB) : t("none"), sum.largest ? t("n-core-groups", { n: sum.largest.freeGroups }) : "", 0, 0],
        [t("closed-cards"), digits([...closed.values()].reduce((all, number) => all + number, 0)),
          [...closed].map(([state, n]) => [known("state-", state), n]).sort().map(([state, n]) => t("n-in-state", { n, state })).join(t("list-comma")), 0, 0],
      ]
    : [[t("cards-of-grants"), String(sum.cards), "", 0, 0], [t("slices"), String(sum.slices), "", 0, 0], ...held(use)]);
  drawUse();
  say(byId("map-text"), t("counts", {
    nodes: t("n-nodes", { n: nodes.length }), cards: t("n-cards", { n: sum.cards }), slices: t("n-slices", { n: sum.slices }),
  }));
  byId("cards-view").hidden = !nodes.length;
  // Few nodes are seen at a glance without a map, and without rights to the nodes nobody knows what is free.
  const mapHidden = nodes.length < LEAST_MAP || !complete;
  for (const id of ["map-canvas", "legend"]) byId(id).hidden = mapHidden;
  byId("hint").hidden = !complete;
  if (!mapHidden) drawMap(nodes);
  drawDay(nodes);
  showGrid(nodes);
  return nodes.length;
}

/** What is granted and not used, as a part of what is held by slices of which that is known; nothing where nobody asks. */
function held(use) {
  if (!cluster.about.has("use")) return [];
  const title = t("granted-unused");
  const slices = t("n-slices", { n: use.slices });
  if (!use.slices) return [[title, t("none"), "", 0, 0]];
  if (!use.known) return [[title, t("not-known"), t("of-whole", { whole: slices }), 0, 0]];
  const among = use.known < use.slices ? t("known-of", { part: use.known, slices }) : "";
  const idle = use.idle ? t("slices-idle", { slices: t("n-slices", { n: use.idle }) }) : "";
  const of = `${t("of-held", { held: memory(use.heldMiB) })}${among}${idle}`;
  return [[title, memory(use.unusedMiB), of, use.unusedMiB, use.heldMiB]];
}

/** Why use is not known, and whose slices leave most of what they hold unused. */
function drawUse() {
  const notes = cluster.about.get("use")?.notes ?? [];
  say(byId("use-note"), notes.map(sentence).join(" "));
  byId("use-note").hidden = !notes.length;
  owners.show([...cluster.of("owner").values()].filter((owner) => inNamespace(owner.namespace, place)));
}

/** Show the nodes; those of a small cluster are large, and name holders. */
function showGrid(nodes) {
  const jobs = cluster.of("job");
  const jobOf = (slice) => (slice.job ? jobs.get(`${slice.namespace}/${slice.job}`) : undefined);
  grid.show(nodes, place, cluster.nodes.size < LEAST_MAP ? jobOf : null);
}

/** The day of the nodes: from Prometheus if that is given and answers, else what the command saw. */
function drawDay(nodes) {
  const now = Date.now();
  if (cluster.about.get("page")?.use && now - asked > DAYS) {
    asked = now;
    ask(headers, "/day", {}).catch(() => ({})).then(({ last, nodes: found }) => {
      used = found && new Map(Object.entries(found).map(([name, levels]) => [name, { last, levels }]));
      whole = true;
      frame();
    });
  }
  if (used && cluster.about.get("page")?.use) day.show(nodes, used, "used", asked);
  else day.show(nodes, cluster.of("day"), "held", cluster.changes.get("day"));
}

/** The map has a turn of its own, so that no task is long. */
function drawMap(nodes) {
  if (!mapped) {
    setTimeout(() => {
      map.show(mapped);
      mapped = null;
    });
  }
  mapped = nodes;
}

function totals(entries) {
  const root = byId("totals");
  while (root.childElementCount > entries.length) root.lastChild.remove();
  entries.forEach(([name, value, of, part, total], i) => {
    let box = root.children[i];
    if (!box) {
      box = element("div");
      const amount = element("dd");
      amount.append(element("span"), element("small"));
      const meter = element("div", "meter");
      meter.setAttribute("aria-hidden", "true");
      amount.append(meter);
      box.append(element("dt"), amount);
      root.append(box);
    }
    say(box.firstChild, name);
    const [figure, small, meter] = box.lastChild.children;
    say(figure, value);
    say(small, of);
    meter.hidden = !total;
    paint(meter, part ? [[0, part, "held"]] : [], total);
  });
}

function drawList(view) {
  const reason = view === "waiting" ? place.reason : "";
  const entries = [...cluster.of(VIEWS[view].kind)]
    .filter(([, value]) => inNamespace(value.namespace, place) && (value.pod ?? value.group ?? value.name).includes(place.name))
    .filter(([, value]) => !reason || value.reason === reason);
  fits = entries.length;
  if (view === "waiting") {
    waitingList.show(VIEWS.waiting, groups.of(entries.map(([, value]) => value)));
    byId("waiting-table").hidden = !fits;
  } else {
    entries.sort(([one], [other]) => compared(one, other));
    list.show(VIEWS[view], entries);
  }
  return fits;
}

/** The namespaces that hold memory, have Jobs, or have pods that wait. */
function drawLegend(view) {
  if (view === "cards") {
    const held = [...cluster.held].filter(([name, mib]) => name && mib > 0);
    legend.show(held, (mib, name) => {
      const idle = unused(cluster.used.get(name));
      return idle ? t("about-unused", { about: memory(mib), idle }) : memory(mib);
    }, place);
    return;
  }
  const { kind } = VIEWS[view];
  const numbers = new Map();
  for (const { namespace } of cluster.of(kind).values()) numbers.set(namespace, (numbers.get(namespace) ?? 0) + 1);
  legend.show(numbers, digits, place);
}

function drawJobs() {
  const source = cluster.about.get("jobs")?.source ?? "";
  say(byId("source"), source);
  byId("source").hidden = !source;
  const hours = Number(place.span) || HOURS;
  const found = matching(cluster, place, Timeline.from(hours));
  byId("jobs-view").hidden = !found.length;
  timeline.show(found, hours, place.job);
  return found.length;
}

function drawPanel() {
  const node = place.view === "cards" && cluster.nodes.get(place.node);
  const card = node && node.cards.find((each) => each.uuid === place.card);
  const job = place.view === "jobs" && place.job && rowOf(cluster, place.job);
  const before = byId("panel").hidden;
  if (!card) panel.hide();
  if (!job) jobPanel.hide();
  if (card) panel.show(node, card, place);
  if (job) jobPanel.show(job);
  byId("panel").hidden = !card && !job;
  if (byId("panel").hidden === before) return;
  // The rest of the page has less room now, or more.
  if (place.view === "cards") showGrid(grid.nodes);
  if (place.view === "jobs") drawJobs();
  whole = true;
  frame();
}

function drawFilter() {
  options(byId("filter-model"), [...cluster.models.keys()].sort(), ["", t("all")], place.model);
  const reasons = new Map();
  for (const pod of cluster.of("waiting").values()) reasons.set(pod.reason, (reasons.get(pod.reason) ?? 0) + 1);
  const texts = new Map([...reasons].map(([reason, number]) => [reason, `${reason} (${digits(number)})`]));
  options(byId("filter-reason"), [...reasons.keys()].sort(), ["", t("any")], place.reason, texts);
  options(byId("namespaces"), [...cluster.namespaces.keys()].sort().slice(0, MOST_NAMESPACES));
}

function options(root, values, first = null, chosen = "", texts = new Map()) {
  const wanted = chosen && !values.includes(chosen) ? [...values, chosen] : values;
  const key = JSON.stringify([wanted, [...texts]]);
  if (root.key !== key) {
    root.key = key;
    const made = wanted.map((value) => {
      const option = element("option", "", texts.get(value) ?? value);
      option.value = value;
      return option;
    });
    if (first) {
      const option = element("option", "", first[1]);
      option.value = first[0];
      made.unshift(option);
    }
    root.replaceChildren(...made);
  }
  if (first && root.value !== chosen) root.value = chosen;
}

function drawNotices() {
  const texts = [...cluster.notices.values()].map((notice) => notice.text);
  const key = JSON.stringify(texts.slice(0, MOST_NOTICES + 1));
  const root = byId("notices");
  if (root.key === key) return;
  root.key = key;
  const left = texts.length - MOST_NOTICES;
  const more = left > 0 ? [element("p", "soft", t("more-notices", { n: left }))] : [];
  root.replaceChildren(...texts.slice(0, MOST_NOTICES).map((text) => element("p", "notice", sentence(text))), ...more);
  root.hidden = !texts.length;
}

function announce(text) {
  say(byId("said"), text);
}

/** Whether the page is live: the command sends changes, and the API server answers the command. */
function drawLive() {
  const late = stream === "live" ? cluster.about.get("watch")?.late ?? "" : "";
  const state = late ? "late" : stream;
  if (state === "live" || state === "wait") heard = "";
  else if (late) heard = late;
  else heard ||= new Date().toTimeString().slice(0, 8);
  byId("live").dataset.state = state === "live" || state === "wait" ? state : "lost";
  say(byId("live-text"), LIVE[state]);
  say(byId("stale"), heard && cluster.about.size ? t("stale", { time: heard, why: LIVE[state] }) : "");
  byId("stale").hidden = !byId("stale").textContent;
}

// What comes from the server

function hear(event, value, at) {
  if (event === "anew") {
    // After a break all comes anew, and is shown once it is whole.
    coming = new Cluster();
  } else if (event === "ready") {
    cluster = coming ?? cluster;
    coming = null;
    loaded = true;
    all = true;
    if (cluster.about.get("page")?.changes) permit?.();
    frame();
  } else if (event === "change") {
    // At the beginning there is nothing to keep, so that what has come is shown at once.
    if (coming && !cluster.nodes.size && !cluster.about.size) cluster = coming;
    const into = coming ?? cluster;
    for (const name of into.take(value)) names.add(name);
    if (into !== cluster) return;
    whole = true;
    arrived ||= at;
    frame();
  }
}

function tell(state) {
  stream = state;
  drawLive();
  if (state !== "live") announce(LIVE[state]);
  if (state === "refused" || state === "busy") {
    byId("empty").hidden = LOGIN === "token" && state === "refused";
    say(byId("empty"), sentence(LIVE[state]));
  }
}

// What a person does

for (const [view, { label }] of Object.entries(VIEWS)) {
  const anchor = element("a", "", `${t(label)} `);
  const number = element("span", "count");
  anchor.dataset.view = number.dataset.count = view;
  anchor.append(number);
  byId("views").append(anchor);
}
for (const [id, field] of FIELDS) {
  byId(id).addEventListener("input", (event) => go({ ...place, [field]: event.target.value }, true));
}
byId("filter").addEventListener("change", () => {
  const shown = {
    cards: () => t("n-nodes", { n: grid.nodes.length }),
    jobs: () => t("n-jobs", { n: timeline.jobs }),
  }[place.view]?.() ?? t("n-entries", { n: fits });
  announce(t("fit", { what: shown }));
});
byId("filter").addEventListener("submit", (event) => event.preventDefault());
addEventListener("keydown", (event) => {
  // In a field of the filter Escape empties the field.
  if (event.key === "Escape" && !byId("panel").hidden && !event.target.closest?.("#filter")) closePanel();
});
byId("panel").addEventListener("click", (event) => event.target.closest(".close") && closePanel());
byId("more").addEventListener("click", () => (place.view === "waiting" ? waitingList : list).longer());
addEventListener("hashchange", arrive);
addEventListener("popstate", arrive);
addEventListener("scroll", () => {
  if (place.view === "cards") grid.draw();
  if (place.view === "jobs") timeline.draw();
}, { passive: true });
// Below what grows or shrinks other rows are in sight.
const above = new ResizeObserver(() => grid.draw());
for (const id of ["map", "day", "totals"]) above.observe(byId(id));
addEventListener("resize", () => {
  all = true;
  frame();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  all = true;
  frame();
});
setInterval(ages, AGES);
setInterval(() => {
  if (place.view !== "jobs" || document.hidden) return;
  whole = true;
  frame();
}, MOVES);

if (LOGIN) {
  byId("body").classList.add("locked");
  arrive();
  const { csrf } = await loggedIn(byId("login"), byId("who"), tell);
  if (csrf) permit = () => allow((wanted) => change(proof(csrf), wanted));
  byId("body").classList.remove("locked");
  await follow({}, hear, tell);
  // The session has ended; nothing of it is left for whoever comes now.
  location.reload();
  await new Promise(() => {});
}
const token = await findToken();
headers = { Authorization: `Bearer ${token}` };
permit = () => allow((wanted) => change(headers, wanted));
await turn();
arrive();
if (token) follow(headers, hear, tell);
else tell("refused");
