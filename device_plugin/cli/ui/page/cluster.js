// What the page knows of the cluster: the entries that the server sends, and what is derived from each node.

import { add, join, nothing, take } from "./use.js";

// States of a slice that somebody should look at.
export const WARN = new Set(["outliving", "covered", "unenforced"]);

// Digits that a number in a name is filled up to, so that gpu-10 comes after gpu-9.
const DIGITS = 10;

export class Cluster {
  constructor() {
    this.nodes = new Map();
    this.kinds = new Map();
    this.notices = this.of("notice");
    this.about = this.of("about");
    this.models = new Map();
    this.namespaces = new Map();
    // By namespace, the MiB that it holds, and the sums of what is used of that.
    this.held = new Map();
    this.used = new Map();
    // All namespaces that an entry has named since the page was loaded.
    this.named = new Set();
    // By kind, how often entries other than nodes changed.
    this.changes = new Map();
    this.names = [];
    this.sorted = true;
  }

  /** The entries of a kind other than nodes, by key. */
  of(kind) {
    if (!this.kinds.has(kind)) this.kinds.set(kind, new Map());
    return this.kinds.get(kind);
  }

  /** Take entries; returns the names of nodes that changed. */
  take(entries) {
    const changed = [];
    const used = new Set();
    for (const [kind, key, value] of entries) {
      if (kind === "node") {
        this.takeNode(key, value);
        changed.push(key);
        continue;
      }
      if (kind === "use") {
        used.add(this.takeUse(key, value));
        continue;
      }
      this.changes.set(kind, (this.changes.get(kind) ?? 0) + 1);
      const into = this.of(kind === "fault" ? "notice" : kind);
      if (value === null) into.delete(key);
      else {
        into.set(key, value);
        if (value.namespace) this.named.add(value.namespace);
      }
    }
    for (const name of used) {
      const node = this.nodes.get(name);
      if (!node) continue;
      this.takeNode(name, node.value);
      changed.push(name);
    }
    return changed;
  }

  /** Take what pods of a namespace use on a node; the key names both. Returns the node's name. */
  takeUse(key, value) {
    const [name, namespace] = key.split(" ");
    const uses = this.of("use");
    const found = uses.get(name) ?? new Map();
    if (value === null) found.delete(namespace);
    else found.set(namespace, value);
    if (found.size) uses.set(name, found);
    else uses.delete(name);
    return name;
  }

  takeNode(name, value) {
    const before = this.nodes.get(name);
    if (before) this.tally(before, -1);
    if (value === null) {
      this.nodes.delete(name);
      this.sorted = false;
      return;
    }
    if (!before) this.sorted = false;
    const node = derived(name, value, this.of("use").get(name));
    this.nodes.set(name, node);
    this.tally(node, 1);
  }

  tally(node, sign) {
    for (const [name, mib] of node.held) this.held.set(name, (this.held.get(name) ?? 0) + sign * mib);
    for (const [name, sums] of node.used) {
      if (!this.used.has(name)) this.used.set(name, nothing());
      join(this.used.get(name), sums, sign);
    }
    for (const [counts, names] of [[this.models, node.models], [this.namespaces, node.namespaces]]) {
      for (const each of names) {
        if (counts === this.namespaces && each) this.named.add(each);
        const number = (counts.get(each) ?? 0) + sign;
        if (number) counts.set(each, number);
        else counts.delete(each);
      }
    }
  }

  /** The nodes of a place's filter, in its order. */
  matching(place) {
    if (!this.sorted) {
      const nodes = [...this.nodes.values()].sort((one, other) => (one.order < other.order ? -1 : 1));
      this.names = nodes.map((node) => node.name);
      this.sorted = true;
    }
    const all = this.names.map((name) => this.nodes.get(name));
    const found = place.name || place.model || place.namespace || place.state ? all.filter((node) => fits(node, place)) : all;
    if (place.sort === "room") found.sort((one, other) => other.room - one.room);
    return found;
  }
}

/** True if a node has to do with what the filter names: itself or a pod on it, a model, a namespace. */
function fits(node, place) {
  const { name, model, namespace, state } = place;
  if (state === "room" && !node.roomy) return false;
  if (state === "look" && !node.look) return false;
  if (model && !node.models.has(model)) return false;
  if (namespace && ![...node.namespaces].some((each) => inNamespace(each, place))) return false;
  return !name || node.name.includes(name) || node.cards.some((card) => card.slices.some((slice) => slice.pod.includes(name)));
}

/** True if a namespace is the one that the filter names, or, where none has this name, begins with it. */
export function inNamespace(namespace, { namespace: text, exact }) {
  return exact ? namespace === text : namespace.startsWith(text);
}

/** True if a slice is one of those that the filter names; all are without a filter of pods. */
export function wanted(slice, place, node) {
  const { name } = place;
  return inNamespace(slice.namespace, place) && (!name || node.includes(name) || slice.pod.includes(name));
}

/** The share of a card that can still be given: the smaller one of memory and core groups, 0 if it is closed. */
export function room(card) {
  if (card.state || !card.free || !card.mib || !card.groups) return 0;
  return Math.min(card.freeMiB / card.mib, card.freeGroups / card.groups);
}

function derived(name, value, use) {
  const node = {
    name, value, order: `${name.replace(/\d+/g, (digits) => digits.padStart(DIGITS, "0"))} ${name}`, serving: value.serving, complete: value.complete, cards: value.cards,
    mib: 0, freeMiB: 0, heldMiB: 0, groups: 0, freeGroups: 0, heldGroups: 0, slices: 0, roomy: 0, room: 0, largest: null,
    models: new Set(), namespaces: new Set(), held: new Map(), hives: new Set(),
    // What is used of the slices, together and by namespace.
    use: nothing(), used: new Map(),
    // Cards that get no new slices, by state, and whether somebody should look at the node.
    closed: new Map(), look: !value.serving,
  };
  for (const card of value.cards) {
    take(card, use);
    card.room = value.serving ? room(card) : 0;
    node.mib += card.mib;
    node.groups += card.groups;
    node.heldMiB += card.mib - card.freeMiB;
    node.heldGroups += card.groups - card.freeGroups;
    node.slices += card.slices.length;
    card.main = card.slices.reduce((most, slice) => (slice.mib > (most?.mib ?? 0) ? slice : most), null)?.namespace ?? "";
    if (card.room) {
      node.freeMiB += card.freeMiB;
      node.freeGroups += card.freeGroups;
      node.roomy += 1;
      node.room += card.room;
      if (!node.largest || card.freeMiB > node.largest.freeMiB) node.largest = card;
    }
    const closed = card.state || (value.serving ? "" : "no-agent");
    if (closed) {
      node.closed.set(closed, (node.closed.get(closed) ?? 0) + 1);
      node.look = true;
    }
    if (card.model) node.models.add(card.model);
    if (card.hive) node.hives.add(card.hive);
    for (const slice of card.slices) {
      node.namespaces.add(slice.namespace);
      node.held.set(slice.namespace, (node.held.get(slice.namespace) ?? 0) + slice.mib);
      node.look ||= WARN.has(slice.state);
      if (!node.used.has(slice.namespace)) node.used.set(slice.namespace, nothing());
      add(node.use, slice);
      add(node.used.get(slice.namespace), slice);
    }
  }
  return node;
}
