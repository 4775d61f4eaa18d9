//! `keeptime serve` and `keeptime remote` with DDS security, on loopback, each test in a domain of
//! its own. The feature `dds-security` has the tests of those who may; without it, what asks for
//! security is refused.

#[cfg(feature = "dds-security")]
#[path = "../../ros/ros/tests/keystore/mod.rs"]
mod keystore;

use std::path::Path;
use std::process::{Command, Output};

fn domain(offset: u32) -> u16 {
    1 + ((std::process::id() + offset * 29) % 100) as u16
}

/// A system file whose gateway is secured by this enclave.
fn system_file(folder: &Path, domain: u16, enclave: &Path) -> std::path::PathBuf {
    let file = folder.join("robot.yaml");
    let text = format!(
        "accelerators: [{{id: gpu0, buckets: 4}}]\n\
         server: {{priority: 0}}\n\
         ros:\n  domain: {domain}\n  interfaces: [127.0.0.1]\n  namespace: /robot\n  \
         security: {}\n",
        enclave.display()
    );
    std::fs::write(&file, text).unwrap();
    file
}

fn serve(folder: &Path, file: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keeptime"));
    command.arg("serve").arg(file).arg("--socket").arg(folder.join("kt.sock"));
    command
}

fn remote(domain: u16, timeout: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keeptime"));
    command.args(["remote", "--interface", "127.0.0.1", "--server", "/robot/keeptime"]);
    command.args(["--timeout", timeout, "--domain", &domain.to_string()]);
    command
}

/// Runs a command that must be refused and returns its error message.
fn refusal(command: &mut Command) -> String {
    let Output { status, stderr, .. } = command.output().unwrap();
    let said = String::from_utf8_lossy(&stderr).into_owned();
    assert_eq!(status.code(), Some(2), "{said}");
    said
}

#[cfg(feature = "dds-security")]
mod secured {
    use std::ffi::OsStr;
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Stdio};

    use super::keystore::{EVERYTHING, Keystore};
    use super::*;

    /// A server whose gateway is on the graph.
    struct Server(Child);

    impl Server {
        fn start(mut command: Command) -> Server {
            let mut server = Server(command.stderr(Stdio::piped()).spawn().unwrap());
            let mut said = BufReader::new(server.0.stderr.take().unwrap()).lines();
            let line =
                said.find(|line| line.as_ref().is_ok_and(|line| line.contains("secured by")));
            assert!(line.is_some(), "the gateway did not start");
            // Read on, so that it can go on writing.
            std::thread::spawn(move || said.for_each(drop));
            server
        }
    }

    impl Drop for Server {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn client_of_the_keystore_is_served_and_others_find_no_server() {
        let (Some(ours), Some(theirs)) = (Keystore::new(), Keystore::new()) else { return };
        let folder = tempfile::tempdir().unwrap();
        let domain = domain(0);
        // No more than docs/ros.md says.
        let client = ["ros_discovery_info", "rq/robot/keeptime/*", "rr/robot/keeptime/*"];
        let robot = [&client[..], &["rt/robot/keeptime/status", "rt/diagnostics"]].concat();
        let (robot, client) = (ours.enclave("robot", &robot), ours.enclave("client", &client));
        let narrow = ours.enclave("narrow", &["ros_discovery_info", "rq/other/*", "rr/other/*"]);
        let stranger = theirs.enclave("stranger", &EVERYTHING);
        let file = system_file(folder.path(), domain, &robot);
        let _server = Server::start(serve(folder.path(), &file));

        let listed = remote(domain, "30s").arg("--security").arg(&client).arg("list").output();
        let listed = listed.unwrap();
        assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
        assert!(String::from_utf8_lossy(&listed.stdout).starts_with("chain"));

        // 160 KB there, 80 KB back, with the enclave that ROS 2's variables name.
        let numbers = |count: u32| (0..count).map(|i| i as f32);
        let bytes = |all: Vec<f32>| all.into_iter().flat_map(f32::to_le_bytes).collect::<Vec<u8>>();
        let (input, output) = (folder.path().join("input"), folder.path().join("output"));
        std::fs::write(&input, bytes(numbers(40_000).collect())).unwrap();
        let line = "run --service vecadd --arguments 20000 --output-bytes 80000 --count 3";
        let mut run = remote(domain, "30s");
        run.env("ROS_SECURITY_ENABLE", "true").env("ROS_SECURITY_STRATEGY", "Enforce");
        run.env("ROS_SECURITY_KEYSTORE", ours.path());
        run.env("ROS_SECURITY_ENCLAVE_OVERRIDE", "/client");
        run.args(line.split(' ')).arg("--input").arg(&input).arg("--output").arg(&output);
        let ran = run.output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        let sums = bytes(numbers(20_000).map(|i| i + (i + 20_000.0)).collect());
        assert_eq!(std::fs::read(&output).unwrap(), sums);

        let plain = refusal(remote(domain, "3s").arg("list"));
        let foreign = refusal(remote(domain, "3s").arg("--security").arg(&stranger).arg("list"));
        for said in [plain, foreign] {
            assert!(said.contains("/robot/keeptime"), "{said}");
        }
        let narrow = refusal(remote(domain, "3s").arg("--security").arg(&narrow).arg("list"));
        assert!(narrow.contains("DDS cannot create"), "{narrow}");

        // And nobody else has noticed.
        assert!(run.output().unwrap().status.success());
    }

    /// A node of Cyclone DDS, with the enclave of this name in a keystore, or none.
    fn foreign(python: &OsStr, domain: u16, enclave: Option<(&Keystore, &str)>) -> Child {
        let here = env!("CARGO_MANIFEST_DIR");
        let mut command = Command::new(python);
        command.arg(format!("{here}/tests/programs/ros_peer.py")).arg("client");
        command.arg(domain.to_string()).arg(format!("{here}/../ros/keeptime_msgs"));
        if let Some((keystore, name)) = enclave {
            command.env("ROS_SECURITY_ENABLE", "true").env("ROS_SECURITY_STRATEGY", "Enforce");
            command.env("ROS_SECURITY_KEYSTORE", keystore.path());
            command.env("ROS_SECURITY_ENCLAVE_OVERRIDE", format!("/{name}"));
        }
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Returns true if the client got what it wanted, and its output.
    fn end(foreign: Child) -> (bool, String) {
        let Output { status, stdout, stderr } = foreign.wait_with_output().unwrap();
        let said = [stdout, stderr].concat();
        (status.success(), String::from_utf8_lossy(&said).into_owned())
    }

    #[test]
    fn cyclone_dds_with_the_keystore_is_served_and_without_it_sees_nothing() {
        let Some(python) = std::env::var_os("KEEPTIME_ROS_SECURE_PYTHON") else {
            eprintln!(
                "SKIP: KEEPTIME_ROS_SECURE_PYTHON is not set to a Python with a secure cyclonedds"
            );
            return;
        };
        let (Some(ours), Some(theirs)) = (Keystore::new(), Keystore::new()) else { return };
        let folder = tempfile::tempdir().unwrap();
        let domain = domain(4);
        let client = ["ros_discovery_info", "rq/robot/keeptime/*", "rr/robot/keeptime/*"];
        let robot = [&client[..], &["rt/robot/keeptime/status", "rt/diagnostics"]].concat();
        ours.enclave("arm", &robot);
        ours.enclave("planner", &robot);
        theirs.enclave("arm", &EVERYTHING);
        let file = system_file(folder.path(), domain, &ours.enclave("robot", &robot));
        let more = "  services: [vecadd, busy]\n  status: 100 ms\n  limits: {priority: 50}\n";
        let text = std::fs::read_to_string(&file).unwrap() + more;
        std::fs::write(&file, text).unwrap();
        let _server = Server::start(serve(folder.path(), &file));

        let outsiders = [None, Some((&theirs, "arm"))].map(|own| foreign(&python, domain, own));
        // The ids are made of the names; one is below the server's, and one above.
        for (name, lower) in [("arm", "foreign id is lower"), ("planner", "server id is lower")] {
            let (is_served, said) = end(foreign(&python, domain, Some((&ours, name))));
            assert!(
                is_served && said.contains(lower) && said.contains("\nleft\n"),
                "{name}: {said}"
            );
        }
        for outsider in outsiders {
            let (is_served, said) = end(outsider);
            assert!(!is_served && said.contains("the node: nothing within 30 s"), "{said}");
        }
    }

    #[test]
    fn bad_enclave_ends_both_commands_before_anything_is_sent() {
        let Some(keystore) = Keystore::new() else { return };
        let folder = tempfile::tempdir().unwrap();
        let robot = keystore.enclave("robot", &EVERYTHING);
        let file = system_file(folder.path(), domain(1), &robot);
        std::fs::remove_file(robot.join("permissions.p7s")).unwrap();
        let said = refusal(&mut serve(folder.path(), &file));
        assert!(said.contains("robot/permissions.p7s: No such file"), "{said}");
        assert!(!folder.path().join("kt.sock").exists());
        let said = refusal(remote(domain(1), "3s").arg("--security").arg(&robot).arg("list"));
        assert!(said.contains("robot/permissions.p7s: No such file"), "{said}");
    }
}

#[cfg(not(feature = "dds-security"))]
#[test]
fn program_without_security_refuses_what_asks_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let enclave = folder.path().join("enclaves/robot");
    std::fs::create_dir_all(&enclave).unwrap();
    let file = system_file(folder.path(), domain(2), &enclave);
    let mut by_variable = remote(domain(2), "3s");
    by_variable.env("ROS_SECURITY_ENABLE", "true").env("ROS_SECURITY_KEYSTORE", folder.path());
    for command in [
        &mut serve(folder.path(), &file),
        remote(domain(2), "3s").arg("--security").arg(&enclave).arg("list"),
        by_variable.arg("list"),
    ] {
        let said = refusal(command);
        assert!(said.contains("built without it"), "{said}");
    }
    assert!(!folder.path().join("kt.sock").exists());
}

#[test]
fn enforced_security_without_a_keystore_is_an_error_and_permissive_is_a_warning() {
    let mut command = remote(domain(3), "1s");
    command.env("ROS_SECURITY_ENABLE", "true").env("ROS_SECURITY_KEYSTORE", "/nowhere");
    let warned = refusal(command.arg("list"));
    assert!(warned.contains("warning: without security"), "{warned}");
    assert!(warned.contains("/robot/keeptime"), "{warned}");
    let refused = refusal(command.env("ROS_SECURITY_STRATEGY", "Enforce"));
    assert!(refused.contains("/nowhere/enclaves: no such folder"), "{refused}");
    assert!(!refused.contains("/robot/keeptime"), "{refused}");
}
