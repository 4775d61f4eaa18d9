//! TraCI's answers: any bytes may come from the process at the other end.

use world::sumo::{Reader, Value};

/// Panics when the reader does, or when what it read needs more memory than the bytes are worth.
pub fn check(bytes: &[u8]) {
    let mut reader = Reader::new(bytes);
    // An answer to a step: a status, then what the subscriptions say.
    let _ = reader.status(0x02, "simulationStep");
    if let Ok(updates) = reader.updates() {
        let texts = |value: &Value| match value {
            Value::Text(text) => text.len(),
            Value::Texts(texts) => texts.iter().map(String::len).sum(),
            Value::Edge(edge, along) => {
                assert!(along.is_finite());
                edge.len()
            }
            Value::Position(x, y) => {
                assert!(x.is_finite() && y.is_finite());
                0
            }
            Value::Number(number) => {
                assert!(number.is_finite());
                0
            }
        };
        let of = |update: &world::sumo::Update| {
            update.id.len() + update.values.iter().map(|(_, value)| texts(value)).sum::<usize>()
        };
        // A byte that is no UTF-8 becomes a sign of three.
        assert!(updates.iter().map(of).sum::<usize>() <= 3 * bytes.len());
        assert!(updates.len() <= bytes.len());
    }
    // An answer to a question.
    let mut reader = Reader::new(bytes);
    let _ = reader.status(0xAB, "convertRoad").and_then(|()| reader.answer());
}
