// Waiting pods, gangs and jobs as lists; each entry is an element that stays as long as it is shown.

import { paint } from "./bars.js";
import { aged, count, digits, element, named, say, sentence, span } from "./text.js";

const FEW = 100;

export class List {
  /** `why(pod)` gives a paragraph about a waiting pod. */
  constructor(root, more, why) {
    this.root = root;
    this.more = more;
    this.items = new Map();
    this.fits = 0;
    this.most = FEW;
    root.addEventListener("click", (event) => {
      const button = event.target.closest(".why");
      if (button) explain(button, why);
    });
    more.addEventListener("click", () => {
      this.most += FEW;
      this.again();
    });
  }

  /** Show entries of a view: pairs of key and value, in their order. */
  show(view, entries) {
    if (view !== this.view) {
      this.root.replaceChildren();
      this.items.clear();
      this.most = FEW;
      this.view = view;
    }
    this.again = () => this.show(view, entries);
    this.fits = entries.length;
    const seen = entries.slice(0, this.most);
    const keys = new Set(seen.map(([key]) => key));
    for (const [key, item] of this.items) {
      if (!keys.has(key)) {
        item.root.remove();
        this.items.delete(key);
      }
    }
    let before = null;
    for (const [key, value] of seen) {
      let item = this.items.get(key);
      if (!item || item.value !== value) {
        const root = MAKERS[view](value);
        item?.root.replaceWith(root);
        item = { root, value };
        this.items.set(key, item);
      }
      const next = before ? before.nextSibling : this.root.firstChild;
      if (next !== item.root) this.root.insertBefore(item.root, next);
      before = item.root;
    }
    this.more.hidden = entries.length <= this.most;
    say(this.more, `Show more of ${digits(entries.length)}`);
  }
}

/** Put the whole answer about a pod in the place of its button. It may take seconds. */
async function explain(button, why) {
  button.disabled = true;
  say(button, "asking…");
  const answer = await why(button.pod);
  const told = named("p", "told", answer.paragraph ?? answer.problem);
  told.tabIndex = -1;
  button.replaceWith(told);
  told.focus();
}

function item(title, of, chip, end) {
  const root = element("li", "item");
  const head = element("h2");
  head.append(named("span", "", title), named("span", "of", of));
  if (chip) head.append(named("span", "chip", chip));
  if (end) head.append(end);
  root.append(head);
  return root;
}

function line(root, name, text) {
  if (text) root.append(named("p", name, text));
}

const MAKERS = {
  waiting(pod) {
    const root = item(pod.pod, pod.namespace, "", aged("span", "end", pod.since, "waits for "));
    line(root, "", sentence(pod.text));
    line(root, "soft", pod.advice && `What helps: ${pod.advice}.`);
    line(root, "soft", pod.asks && `Asks for ${pod.asks}.`);
    const button = element("button", "plain why", "Why, in full");
    button.type = "button";
    button.pod = `${pod.namespace}/${pod.pod}`;
    button.setAttribute("aria-label", `Why ${pod.pod} waits, in full`);
    root.append(button);
    return root;
  },
  gangs(gang) {
    const root = item(gang.group, gang.namespace, gang.why ? "waiting" : "complete");
    const sizes = gang.sizes.join(" or ");
    line(root, "", `${gang.pods.length} of ${sizes} pods exist, ${gang.bound} are bound, ${gang.finished} have finished.`);
    line(root, "soft", sentence(gang.why));
    bar(root, gang.bound + gang.finished, Math.max(...gang.sizes, 1), "bound");
    return root;
  },
  jobs(job) {
    const place = job.place ? `, number ${job.place}` : "";
    const root = item(job.name, `${job.namespace}, queue ${job.queue || "(none)"}${place}`, job.phase, aged("span", "end", job.since, "for "));
    line(root, "", [job.waitsFor && `Waits for ${job.waitsFor}.`, pods(job)].filter(Boolean).join(" "));
    if (job.progress?.total) {
      const left = job.secondsLeft ? `, about ${span(job.secondsLeft)} left` : "";
      line(root, "soft", `${job.progress.done} of ${job.progress.total} done${left}.`);
      bar(root, job.progress.done, job.progress.total, "done");
    }
    line(root, "soft", sentence(job.why));
    return root;
  },
};

/** How many pods a job has at a time, and how many it may have, as a sentence. */
function pods(job) {
  const width = Number(job.width);
  const listed = String(job.widths ?? "").replaceAll(",", ", ");
  const bounds = listed || (job.min || job.max ? `${job.min || 1} to ${job.max || "any number"}` : "");
  if (!width) return bounds && `May have ${bounds} pods at a time.`;
  return `${count(width, "pod")} at a time${bounds && `, may have ${bounds}`}.`;
}

function bar(root, part, whole, name) {
  const made = element("div", "meter");
  made.setAttribute("role", "img");
  made.setAttribute("aria-label", `${part} of ${whole} ${name}`);
  paint(made, [[0, part, "a"]], whole);
  root.append(made);
}
