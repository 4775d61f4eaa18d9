// Plays the moving picture of a drive: play and pause, steps, a slider, and jumps to its moments.
const player = document.currentScript.parentElement;
const part = (name) => player.querySelector(`[data-part="${name}"]`);
const [picture, bar, play, slider, clock] = ["picture", "bar", "play", "slider", "clock"].map(part);
const from = Number(player.dataset.from);
const seconds = Number(player.dataset.seconds);
const STEP = 0.1;
if (!picture.pauseAnimations) return;
let playing = false;
let stopped = 0;

// Before a page is loaded its pictures keep the time that is set, but do not tell it.
const now = () => (playing ? picture.getCurrentTime() % seconds : stopped);

function show(at) {
  slider.value = at;
  clock.textContent = `${(from + at).toFixed(2)} s`;
  slider.setAttribute("aria-valuetext", clock.textContent);
}

function frame() {
  show(now());
  if (playing) requestAnimationFrame(frame);
}

function run(on) {
  if (on === playing) return;
  stopped = now();
  playing = on;
  play.textContent = on ? "Pause" : "Play";
  if (on) {
    picture.unpauseAnimations();
    requestAnimationFrame(frame);
  } else {
    picture.pauseAnimations();
  }
}

// Stops at a time after the beginning of the picture.
function stop(at) {
  run(false);
  stopped = Math.min(Math.max(at, 0), seconds - 0.001);
  picture.setCurrentTime(stopped);
  show(stopped);
}

// To the next or the last multiple of a step.
function step(steps) {
  stop((Math.round(now() / STEP) + steps) * STEP);
}

play.addEventListener("click", () => run(!playing));
part("back").addEventListener("click", () => step(-1));
part("on").addEventListener("click", () => step(1));
slider.addEventListener("input", () => stop(Number(slider.value)));
for (const moment of player.querySelectorAll("[data-at]")) {
  moment.disabled = false;
  moment.addEventListener("click", () => stop(Number(moment.dataset.at)));
}
const keys = {
  " ": () => run(!playing),
  ArrowLeft: () => step(-1),
  ArrowRight: () => step(1),
  Home: () => stop(0),
  End: () => stop(seconds),
};
picture.addEventListener("keydown", (event) => {
  if (!keys[event.key] || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  keys[event.key]();
});
bar.hidden = false;
picture.pauseAnimations();
if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
  stop(Number(player.dataset.first));
} else {
  run(true);
}
