// The views of the page, in their order. Each but the cards is a list of the entries of a kind: with the words around
// them, their order (by name where none is given), and what draws one. The server sends the entries (../follow.py).

import { bar, item, line } from "./lists.js";
import { aged, count, element, sentence, span } from "./text.js";

export const VIEWS = {
  cards: {
    label: "Cards", title: "Cards", filter: "node or pod",
    nothing: "No node shows cards yet: vgpu check says what an install lacks.",
  },
  waiting: {
    kind: "waiting", label: "Waiting", title: "Waiting pods", filter: "pod", nothing: "No pod waits for a card.",
    order: (one, other) => compared(one.since, other.since),
    make(pod) {
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
  },
  gangs: {
    kind: "gang", label: "Gangs", title: "Gangs", filter: "group", nothing: "There are no gangs.",
    make(gang) {
      const root = item(gang.group, gang.namespace, gang.why ? "waiting" : "complete");
      const sizes = gang.sizes.join(" or ");
      line(root, "", `${gang.pods.length} of ${sizes} pods exist, ${gang.bound} are bound, ${gang.finished} have finished.`);
      line(root, "soft", sentence(gang.why));
      bar(root, gang.bound + gang.finished, Math.max(...gang.sizes, 1), "bound");
      return root;
    },
  },
  jobs: {
    kind: "job", label: "Jobs", title: "Jobs in queues", filter: "job", nothing: "No job is in a queue.",
    order: (one, other) => compared(one.queue, other.queue) || compared(one.place || Infinity, other.place || Infinity),
    make(job) {
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
  },
};

/** Negative if one comes before the other, 0 if they are equal. */
export function compared(one, other) {
  return one < other ? -1 : one > other ? 1 : 0;
}

/** How many pods a job has at a time, and how many it may have, as a sentence. */
function pods(job) {
  const width = Number(job.width);
  const listed = String(job.widths ?? "").replaceAll(",", ", ");
  const bounds = listed || (job.min || job.max ? `${job.min || 1} to ${job.max || "any number"}` : "");
  if (!width) return bounds && `May have ${bounds} pods at a time.`;
  return `${count(width, "pod")} at a time${bounds && `, may have ${bounds}`}.`;
}
