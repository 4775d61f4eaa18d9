//! A keystore as `ros2 security` makes it, by the `openssl` command: two authorities, the domain's
//! governance, and enclaves. Its certificates are valid for a hundred years.
#![allow(dead_code, reason = "every test file uses its own part")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Topics that `ros2 security create_enclave` allows.
pub(crate) const EVERYTHING: [&str; 4] = ["rt/*", "rq/*", "rr/*", "ros_discovery_info"];

/// Protection of all topics as `ros2 security create_keystore` sets it: `rtps`, `metadata` and
/// `data`, but for the last, which is `ENCRYPT` there.
pub(crate) const USUAL: [&str; 3] = ["SIGN", "ENCRYPT", "NONE"];

/// A keystore in a folder of its own.
pub(crate) struct Keystore {
    folder: tempfile::TempDir,
}

impl Keystore {
    /// One with the usual governance; without `openssl`, says so.
    pub(crate) fn new() -> Option<Keystore> {
        Keystore::with(USUAL)
    }

    /// One whose governance protects messages, submessages and data so.
    pub(crate) fn with(kinds: [&str; 3]) -> Option<Keystore> {
        if Command::new("openssl").arg("version").output().is_err() {
            eprintln!("SKIP: there is no openssl command to make certificates with");
            return None;
        }
        let keystore = Keystore { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(keystore.path().join("enclaves")).unwrap();
        for ca in ["identity_ca", "permissions_ca"] {
            let line = format!(
                "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 36500 \
                 -keyout {ca}.key.pem -out {ca}.cert.pem -subj /CN={ca}"
            );
            keystore.openssl(&line);
        }
        fs::write(keystore.path().join("governance.xml"), governance(kinds)).unwrap();
        keystore.sign("governance");
        Some(keystore)
    }

    /// Its folder, for `ROS_SECURITY_KEYSTORE`.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// An enclave whose participants may publish and subscribe these topics.
    pub(crate) fn enclave(&self, name: &str, topics: &[&str]) -> PathBuf {
        let subject = format!("/CN={name}");
        self.openssl(&format!(
            "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key.pem \
             -out request.pem -subj {subject}"
        ));
        self.openssl(
            "x509 -req -in request.pem -CA identity_ca.cert.pem -CAkey identity_ca.key.pem \
             -CAcreateserial -days 36500 -out cert.pem",
        );
        fs::write(self.path().join("permissions.xml"), permissions(name, topics)).unwrap();
        self.sign("permissions");
        let enclave = self.path().join("enclaves").join(name);
        fs::create_dir(&enclave).unwrap();
        for file in ["key.pem", "cert.pem", "permissions.p7s"] {
            fs::rename(self.path().join(file), enclave.join(file)).unwrap();
        }
        for file in ["identity_ca.cert.pem", "permissions_ca.cert.pem", "governance.p7s"] {
            fs::copy(self.path().join(file), enclave.join(file)).unwrap();
        }
        fs::set_permissions(enclave.join("key.pem"), fs::Permissions::from_mode(0o600)).unwrap();
        enclave
    }

    fn sign(&self, document: &str) {
        self.openssl(&format!(
            "smime -sign -in {document}.xml -text -out {document}.p7s \
             -signer permissions_ca.cert.pem -inkey permissions_ca.key.pem"
        ));
    }

    fn openssl(&self, line: &str) {
        let mut command = Command::new("openssl");
        let done = command.args(line.split(' ')).current_dir(self.path()).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "openssl {line}: {said}");
    }
}

fn governance([rtps, metadata, data]: [&str; 3]) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<dds>
  <domain_access_rules>
    <domain_rule>
      <domains><id_range><min>0</min><max>200</max></id_range></domains>
      <allow_unauthenticated_participants>false</allow_unauthenticated_participants>
      <enable_join_access_control>true</enable_join_access_control>
      <discovery_protection_kind>ENCRYPT</discovery_protection_kind>
      <liveliness_protection_kind>ENCRYPT</liveliness_protection_kind>
      <rtps_protection_kind>{rtps}</rtps_protection_kind>
      <topic_access_rules>
        <topic_rule>
          <topic_expression>*</topic_expression>
          <enable_discovery_protection>true</enable_discovery_protection>
          <enable_liveliness_protection>true</enable_liveliness_protection>
          <enable_read_access_control>true</enable_read_access_control>
          <enable_write_access_control>true</enable_write_access_control>
          <metadata_protection_kind>{metadata}</metadata_protection_kind>
          <data_protection_kind>{data}</data_protection_kind>
        </topic_rule>
      </topic_access_rules>
    </domain_rule>
  </domain_access_rules>
</dds>
"
    )
}

fn permissions(name: &str, topics: &[&str]) -> String {
    let topics: String = topics.iter().map(|topic| format!("<topic>{topic}</topic>")).collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<dds>
  <permissions>
    <grant name=\"{name}\">
      <subject_name>CN={name}</subject_name>
      <validity>
        <not_before>2020-01-01T00:00:00</not_before>
        <not_after>2120-01-01T00:00:00</not_after>
      </validity>
      <allow_rule>
        <domains><id_range><min>0</min><max>200</max></id_range></domains>
        <publish><topics>{topics}</topics></publish>
        <subscribe><topics>{topics}</topics></subscribe>
      </allow_rule>
      <default>DENY</default>
    </grant>
  </permissions>
</dds>
"
    )
}
