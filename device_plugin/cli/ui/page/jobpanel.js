// One Job at large: its state, why it waits, how much is done, and what happened to it.

import { actions } from "./actions.js";
import { moment } from "./axis.js";
import { command } from "./command.js";
import { hue } from "./color.js";
import { group, lines, percent } from "./jobs.js";
import { known, t } from "./language.js";
import { element, named, say } from "./text.js";

export class JobPanel {
  constructor(root) {
    this.root = root;
    this.key = "";
  }

  hide() {
    if (!this.key) return;
    this.root.replaceChildren();
    this.key = "";
  }

  /** Show a Job as it is now. */
  show(row) {
    if (this.key !== row.key) {
      this.key = row.key;
      this.root.hidden = false;
      this.root.scrollTop = 0;
      this.build(row);
    }
    this.fill(row);
  }

  focus() {
    this.title?.focus({ preventScroll: true });
  }

  build({ times }) {
    const head = element("header");
    this.title = named("h2", "", times.name);
    this.title.id = "panel-title";
    this.title.tabIndex = -1;
    const close = element("button", "close", "×");
    close.type = "button";
    close.setAttribute("aria-label", t("close-job"));
    head.append(this.title, close);
    this.where = named("p", "soft", "");
    this.meter = element("div", "meter");
    this.meter.setAttribute("role", "img");
    this.meter.append(element("i"));
    this.meter.style.color = hue(times.namespace);
    this.said = element("div", "said");
    this.stays = element("table", "stays");
    this.told = null;
    const more = element("p", "soft", t("in-full"));
    more.append(command(`vgpu why job/${times.name} -n ${times.namespace}`));
    this.actions = element("div");
    this.actionsOf = "";
    this.root.replaceChildren(head, this.where, this.meter, this.said, more, this.actions, element("h3", "", t("what-happened")), this.stays);
  }

  /** What may be done about the Job; it stays as it is until that changes. */
  act(row) {
    const state = group(row);
    if (this.actionsOf === state) return;
    this.actionsOf = state;
    const { name, namespace } = row.times;
    this.actions.replaceChildren(actions(ACTIONS[state].map((action) => [
      `do-${action}`, `vgpu ${LINES[action] ?? action} ${name} -n ${namespace}`, { action, namespace, name },
    ])));
  }

  fill(row) {
    const { times, job } = row;
    say(this.where.firstChild, `${t("job-of", { namespace: times.namespace, queue: row.queue || t("no-queue") })}${job?.pool ? t("job-pool", { pool: job.pool }) : ""}`);
    this.meter.hidden = !job?.progress?.total;
    if (!this.meter.hidden) {
      this.meter.setAttribute("aria-label", t("percent-done", { n: percent(job.progress) }));
      this.meter.firstChild.style.width = `${percent(job.progress)}%`;
    }
    const texts = lines(row);
    while (this.said.childElementCount > texts.length) this.said.lastChild.remove();
    texts.forEach((text, i) => {
      if (!this.said.children[i]) this.said.append(named("p", "", ""));
      say(this.said.children[i].firstChild, text);
    });
    this.act(row);
    if (this.told === times) return;
    this.told = times;
    this.stays.replaceChildren(...history(times));
  }
}

/** What may be done about a Job that is in one of these states. */
const ACTIONS = { running: ["stop", "cancel"], waiting: ["admit", "resume", "stop", "cancel"], ended: ["cancel"] };
const LINES = { admit: "queue admit" };

/** What the command saw of a Job, the newest first, as rows of a table. */
function history({ stays, seen, ended, outcome }) {
  const head = element("tr");
  for (const name of [t("from"), t("pods"), t("state")]) {
    const cell = element("th", "", name);
    cell.scope = "col";
    head.append(cell);
  }
  const rows = stays.map(([at, width, phase]) => tableRow(`${moment(at)}${at < seen ? " *" : ""}`, width, known("phase-", phase))).reverse();
  if (ended !== null) rows.unshift(tableRow(moment(ended), 0, known("phase-", outcome)));
  const made = [head, ...rows];
  if (stays[0][0] < seen) {
    const note = element("caption", "soft", t("from-the-job", { time: moment(seen) }));
    made.unshift(note);
  }
  return made;
}

function tableRow(when, width, phase) {
  const row = element("tr");
  row.append(element("td", "", when), element("td", "", String(width)), element("td", "", phase));
  return row;
}
