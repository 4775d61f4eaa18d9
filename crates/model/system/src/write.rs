//! Writing of a [`System`] to a file that parses to the same one.

use crate::{Ros, System};
use serde::Serialize;
use serde_json::Value;

impl System {
    /// The text of a system file with this content, without the keys that are as by default.
    /// [`System::parse`] gives back the same system, provided that it passes the checks and that the
    /// same name is given.
    pub fn to_yaml(&self) -> String {
        let mut file = json(self);
        prune(&mut file, &json(&System::default()));
        if let Some(ros) = file.get_mut("ros") {
            prune(ros, &json(&Ros::default()));
        }
        let chains = file.get_mut("chains").and_then(Value::as_array_mut).into_iter().flatten();
        for chain in chains.filter_map(Value::as_object_mut) {
            if chain.get("deadline") == chain.get("period") {
                chain.shift_remove("deadline");
            }
        }
        files::to_yaml(&file)
    }
}

fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// Takes out of a mapping what is as in another one.
fn prune(value: &mut Value, usual: &Value) {
    let (Value::Object(map), Value::Object(usual)) = (value, usual) else { return };
    map.retain(|key, value| match usual.get(key) {
        Some(usual) if *value == *usual => false,
        Some(usual) => {
            prune(value, usual);
            true
        }
        None => true,
    });
}
