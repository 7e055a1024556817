// The form in which a person logs in, and the name of whoever is logged in.

import { LOGIN, logIn, logOut, session } from "./session.js";
import { say, sentence } from "./text.js";

// Milliseconds after which a server that does not answer is asked again.
const AGAIN = 5000;

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Resolves with the session once somebody is logged in. `tell` gets the state of the connection meanwhile. */
export async function loggedIn(form, who, tell) {
  for (;;) {
    try {
      const found = await session();
      if (found) {
        form.hidden = true;
        show(who, found);
        return found;
      }
      tell("refused");
      if (LOGIN === "token") return ask(form);
    } catch {
      tell("lost");
    }
    await pause(AGAIN);
  }
}

/** Show the form until a login succeeds; the page is then loaded anew, so that nothing of another person is left. */
function ask(form) {
  const [field, button, problem] = ["#login-token", "button", "#login-problem"].map((each) => form.querySelector(each));
  form.hidden = false;
  field.focus();
  form.onsubmit = async (event) => {
    event.preventDefault();
    button.disabled = true;
    const why = await logIn(field.value).catch((error) => error.message);
    field.value = "";
    button.disabled = false;
    if (!why) location.reload();
    say(problem, sentence(why));
    field.focus();
  };
  return new Promise(() => {});
}

function show(who, { user, csrf }) {
  who.hidden = false;
  say(who.firstElementChild, user);
  const button = who.querySelector("button");
  button.hidden = LOGIN !== "token";
  button.onclick = () => logOut(csrf).finally(() => location.reload());
}
