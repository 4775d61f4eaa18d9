//! A page in a browser: a Chromium on the path, without a window. Without one its tests say SKIP.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The page with a script at its end, which finds in `errors` those of the page.
pub(crate) fn used(page: &str, script: &str) -> String {
    // A browser without a window may draw no frames, for which drawing waits.
    let catch = "<head><script>const errors = [];\
        window.requestAnimationFrame = (draw) => setTimeout(draw, 16);\
        addEventListener('error', (event) => errors.push(event.message));\
        addEventListener('unhandledrejection', (event) => errors.push(`${event.reason}`));\
        console.error = console.warn = (...words) => errors.push(words.join(' '));</script>";
    let page = page.replacen("<head>", catch, 1);
    page.replace("</body>", &format!("<script>{script}</script></body>"))
}

/// Content that the page's script leaves in the element `results`; none without a browser.
pub(crate) fn browsed(page: &Path, dark: bool) -> Option<Value> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    let Some(browser) = found.into_iter().find(|file| file.is_file()) else {
        println!("SKIP: no Chromium on the path (apt-get install chromium)");
        return None;
    };
    let profile = page.with_extension(if dark { "dark" } else { "light" });
    // The browser does not end by itself when it hangs.
    let output = Command::new("timeout")
        .arg("120")
        .arg(browser)
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1200,900"])
        .args(["--virtual-time-budget=20000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(dark.then_some("--blink-settings=preferredColorScheme=0"))
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&output.stdout);
    let begin = "<pre id=\"results\">";
    let Some(from) = dom.find(begin).map(|at| at + begin.len()) else {
        let said = String::from_utf8_lossy(&output.stderr);
        panic!("the page's script left nothing: {}", said.chars().take(2_000).collect::<String>());
    };
    let text = &dom[from..from + dom[from..].find("</pre>").unwrap()];
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    Some(serde_json::from_str(&text).unwrap())
}
