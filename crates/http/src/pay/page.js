
"use strict";
(() => {
  const main = document.querySelector("main");
  const at = (id) => document.getElementById(id);
  const base = location.pathname.replace(/\/+$/, "");
  const word = (name) => main.getAttribute("data-text-" + name);
  const state = at("state"), ways = at("ways"), left = at("left"), copy = at("copy"), code = at("code");
  const isLive = () => ["creating", "pending"].includes(main.dataset.status);
  const say = (text) => { if (state.textContent !== text) state.textContent = text; };

  // What came in may differ from what was asked for: the facts are those of the page as it is by now. Another node may be a
  // second behind.
  const renew = () => fetch(base, { cache: "no-store", credentials: "omit" })
    .then((answer) => answer.ok ? answer.text() : "")
    .then((text) => {
      const now = new DOMParser().parseFromString(text, "text/html");
      const facts = now.querySelector("dl"), stands = now.querySelector("main");
      if (!facts) return;
      if (stands.dataset.status === "paid") document.querySelector("dl").replaceWith(facts);
      else setTimeout(renew, 2000);
    }, () => {});

  // Where the charge stands, as it is told.
  const tell = (told) => {
    if (told.status === main.dataset.status) return;
    if (told.status === "pending") { location.reload(); return; }
    const text = word(told.status);
    if (!text) return;
    main.dataset.status = told.status;
    if (!isLive() && ways) ways.hidden = true;
    say(text);
    if (told.status === "paid") renew();
  };

  // By events; where there are none, by asking.
  const ask = () => fetch(base + "/status", { cache: "no-store", credentials: "omit" })
    .then((answer) => answer.ok ? answer.json() : null)
    .then((told) => { if (told) tell(told); }, () => {});
  let asking = false;
  const keepAsking = () => {
    if (asking) return;
    asking = true;
    const again = () => { if (isLive()) setTimeout(() => ask().then(again), 5000); };
    ask().then(again);
  };
  if (isLive()) {
    if ("EventSource" in window) {
      const events = new EventSource(base + "/events");
      events.onmessage = (event) => {
        tell(JSON.parse(event.data));
        if (!isLive()) events.close();
      };
      events.onerror = () => {
        if (!isLive()) events.close();
        else if (events.readyState === EventSource.CLOSED) keepAsking();
      };
    } else keepAsking();
    // Back from the bank's app, whatever became of the events meanwhile.
    document.addEventListener("visibilitychange", () => {
      if (document.visibilityState === "visible" && isLive()) ask();
    });
  }

  // The time that is left: the server says how long that is, so that it need not be right here what time it is.
  if (left) {
    const ends = Date.now() + Number(main.dataset.left);
    const two = (number) => String(number).padStart(2, "0");
    const count = () => {
      if (!isLive()) return;
      const seconds = Math.max(0, Math.ceil((ends - Date.now()) / 1000));
      if (seconds === 0) { ways.hidden = true; say(word("over")); return; }
      const hours = Math.floor(seconds / 3600), minutes = Math.floor(seconds / 60) % 60;
      left.textContent = word("left") + ": " + (hours ? hours + ":" + two(minutes) : minutes) + ":" + two(seconds % 60);
      left.hidden = false;
      setTimeout(count, 1000 - (Date.now() % 1000));
    };
    count();
  }

  if (copy) {
    copy.hidden = false;
    const done = (ok) => { at("copied").textContent = word(ok ? "copied" : "not-copied"); };
    const byHand = () => {
      code.focus();
      code.select();
      let ok = false;
      try { ok = document.execCommand("copy"); } catch (_refused) { ok = false; }
      if (ok) copy.focus();
      done(ok);
    };
    copy.addEventListener("click", () => {
      at("copied").textContent = "";
      if (navigator.clipboard) navigator.clipboard.writeText(code.value).then(() => done(true), byHand);
      else byHand();
    });
  }
})();
