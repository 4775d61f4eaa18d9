//! The structures of this crate beside the `.msg` and `.srv` files of `crates/ros/keeptime_msgs`: the same
//! fields in the same order and of the same types. And the bytes, as another implementation of
//! CDR has them, are compared in `interoperation.rs`.

mod schema;

use ros::message::{Time, diagnostic, keeptime};
use schema::{fields, read_interface};

fn one<T: Default>() -> Vec<T> {
    vec![T::default()]
}

#[test]
fn messages_have_the_fields_of_their_files() {
    let status =
        keeptime::Status { accelerators: one(), chains: one(), ..keeptime::Status::default() };
    let part = |file: &str| read_interface(file)[0].clone();
    assert_eq!(fields(&keeptime::Outcome::default()), part("msg/Result.msg"));
    assert_eq!(fields(&keeptime::AcceleratorStatus::default()), part("msg/AcceleratorStatus.msg"));
    assert_eq!(fields(&keeptime::ChainStatus::default()), part("msg/ChainStatus.msg"));
    assert_eq!(fields(&keeptime::GatewayStatus::default()), part("msg/GatewayStatus.msg"));
    assert_eq!(fields(&status), part("msg/Status.msg"));
}

#[test]
fn services_have_the_fields_of_their_files() {
    use keeptime::*;
    let check = |file: &str, request: Vec<(String, String)>, response: Vec<(String, String)>| {
        assert_eq!(vec![request, response], read_interface(file), "{file}");
    };
    let file = "srv/RegisterChain.srv";
    check(file, fields(&RegisterRequest::default()), fields(&RegisterResponse::default()));
    let file = "srv/DeregisterChain.srv";
    check(file, fields(&DeregisterRequest::default()), fields(&DeregisterResponse::default()));
    let file = "srv/KeepAlive.srv";
    check(file, fields(&KeepAliveRequest::default()), fields(&KeepAliveResponse::default()));
    let chains = ListResponse { chains: one(), ..ListResponse::default() };
    check("srv/ListChains.srv", fields(&ListRequest::default()), fields(&chains));
    let file = "srv/QueryChain.srv";
    check(file, fields(&QueryRequest::default()), fields(&QueryResponse::default()));
    let submit = SubmitRequest { arguments: one(), ..SubmitRequest::default() };
    check("srv/Submit.srv", fields(&submit), fields(&SubmitResponse::default()));
}

/// The files of these packages are not here; their definitions have been the same since 2017.
#[test]
fn diagnostics_have_the_fields_of_diagnostic_msgs() {
    let named = |list: &[(&str, &str)]| -> Vec<(String, String)> {
        list.iter().map(|(name, kind)| (name.to_string(), kind.to_string())).collect()
    };
    let array = diagnostic::DiagnosticArray { status: one(), ..Default::default() };
    assert_eq!(fields(&array), named(&[("header", "Header"), ("status", "DiagnosticStatus[]")]));
    let header = named(&[("stamp", "Time"), ("frame_id", "string")]);
    assert_eq!(fields(&diagnostic::Header::default()), header);
    let status = diagnostic::DiagnosticStatus { values: one(), ..Default::default() };
    let expected = named(&[
        ("level", "uint8"),
        ("name", "string"),
        ("message", "string"),
        ("hardware_id", "string"),
        ("values", "KeyValue[]"),
    ]);
    assert_eq!(fields(&status), expected);
    let pair = named(&[("key", "string"), ("value", "string")]);
    assert_eq!(fields(&diagnostic::KeyValue::default()), pair);
    assert_eq!(fields(&Time::default()), named(&[("sec", "int32"), ("nanosec", "uint32")]));
}

#[test]
fn constants_are_those_of_the_files() {
    use keeptime::Outcome;
    let constants = schema::constants("msg/Result.msg");
    let here = [
        ("OK", Outcome::OK),
        ("REFUSED", Outcome::REFUSED),
        ("MALFORMED", Outcome::MALFORMED),
        ("UNKNOWN", Outcome::UNKNOWN),
        ("TOO_OLD", Outcome::TOO_OLD),
        ("EXPIRED", Outcome::EXPIRED),
        ("FAILED", Outcome::FAILED),
        ("UNAVAILABLE", Outcome::UNAVAILABLE),
    ];
    let here: Vec<_> = here.iter().map(|(name, code)| (name.to_string(), *code)).collect();
    assert_eq!(here, constants);
}
