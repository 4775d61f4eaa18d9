//! The kernel's tracer: descriptions of events, pages of events.

use trace::kernel::events::{Event, Formats};
use trace::kernel::page::{Head, PageError, parse_head, parse_page};

/// Descriptions of a kernel's events.
pub const FORMATS: &str = include_str!("../../crates/observe/trace/tests/data/tracefs-formats.txt");

/// Ends the description of events in an input; the page follows.
const END: &[u8] = b"\nEND\n";

/// Panics when a parser does, or when it hands out what is not in the page.
///
/// The page is read as the real descriptions say; an input that begins with descriptions of its
/// own is read as these say, too.
pub fn check(input: &[u8]) {
    let formats = Formats::parse(FORMATS).expect("a kernel's own descriptions");
    check_page(input, &formats);
    if let Some(end) = input.windows(END.len()).position(|window| window == END) {
        let text = String::from_utf8_lossy(&input[..end]);
        match Formats::parse(&text) {
            Ok(formats) => check_page(&input[end + END.len()..], &formats),
            Err(error) => assert!(error.to_string().starts_with("trace event "), "{error}"),
        }
    }
}

fn check_page(page: &[u8], formats: &Formats) {
    let inside = page.as_ptr_range();
    let (mut bytes, mut last) = (0, inside.start);
    let answer = parse_page(page, &formats.page, &mut |_, data| {
        let range = data.as_ptr_range();
        assert!(range.start >= last && range.end <= inside.end, "data outside of the page");
        last = range.end;
        bytes += data.len();
        if let Some(event) = formats.decode(data) {
            check_event(&event, data);
        }
        assert_eq!(formats.running(data).is_some(), data.len() >= 8 || !is_usual(formats));
    });
    assert!(bytes <= page.len());
    check_answer(answer, page, formats);
}

/// The real descriptions put the id of the thread before byte 8.
fn is_usual(formats: &Formats) -> bool {
    formats.running(&[0; 8]).is_some() && formats.running(&[0; 7]).is_none()
}

fn check_event(event: &Event<'_>, data: &[u8]) {
    let name = match event {
        Event::Switch { from, to, .. } => {
            assert!(from.name.len() <= data.len());
            to.name
        }
        Event::Waking { wakee, .. } | Event::Wakeup { wakee, .. } => wakee.name,
        Event::WakeupNew { wakee, .. } => wakee.name,
        Event::Boost { name, .. } | Event::Born { name, .. } => name,
        Event::FutexEnter { .. } | Event::FutexExit { .. } => &[],
    };
    let inside = data.as_ptr_range();
    let range = name.as_ptr_range();
    let within = inside.start <= range.start && range.end <= inside.end;
    assert!(name.is_empty() || within, "a name outside of its event");
    assert!(!name.contains(&0), "a name with a zero");
}

fn check_answer(answer: Result<Head, PageError>, page: &[u8], formats: &Formats) {
    match answer {
        Ok(head) => assert_eq!(parse_head(page, &formats.page), Ok(head)),
        Err(PageError::Short { bytes, .. }) => assert_eq!(bytes, page.len()),
        Err(PageError::Commit { commit, room }) => assert!(commit > room && room <= page.len()),
        Err(PageError::Event { offset, length, end }) => {
            assert!(offset < end && offset + length > end, "{answer:?}");
        }
    }
}
