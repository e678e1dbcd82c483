// The place of the messages. It follows the end, unless the reader has scrolled up.
import { $ } from "./dom.js";

let follows = true;
let moved = 0; // when the reader last moved the messages
let asked = false;

// bottom shows the end of the messages, if it follows that. The second frame is for blocks whose height is only known
// once they are shown.
export function bottom(always) {
  if (always) follows = true;
  if (!follows || asked) return;
  asked = true;
  const down = () => {
    if (follows) $("log").scrollTop = $("log").scrollHeight;
  };
  requestAnimationFrame(() => {
    asked = false;
    down();
    requestAnimationFrame(down);
  });
}

export function listen() {
  for (const kind of ["wheel", "touchmove", "keydown", "pointerdown"]) {
    $("log").addEventListener(
      kind,
      () => {
        moved = performance.now();
      },
      { passive: true },
    );
  }
  $("log").addEventListener(
    "scroll",
    () => {
      const log = $("log");
      if (log.scrollHeight - log.scrollTop - log.clientHeight < 80) follows = true;
      else if (performance.now() - moved < 1000) follows = false;
    },
    { passive: true },
  );
}
