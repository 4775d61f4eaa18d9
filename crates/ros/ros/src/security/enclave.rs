//! The six files of an enclave: what has to be in them, and whether they belong together.

use super::bad;
use crate::Error;
use openssl::asn1::Asn1Time;
use openssl::nid::Nid;
use openssl::pkcs7::{Pkcs7, Pkcs7Flags};
use openssl::pkey::PKey;
use openssl::stack::Stack;
use openssl::x509::store::X509StoreBuilder;
use openssl::x509::{X509, X509NameRef};
use roxmltree::{Document, Node};
use rustdds::DomainParticipantSecurityConfigFiles;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Size above that of any file of an enclave.
const MAX_BYTES: u64 = 4 << 20;

/// The files of a folder, as RustDDS wants them named.
pub(crate) fn files(folder: &Path) -> DomainParticipantSecurityConfigFiles {
    DomainParticipantSecurityConfigFiles::with_ros_default_names(folder, String::new())
}

/// Checks that the files of an enclave can secure a participant in a domain. Sends nothing.
///
/// # Errors
/// [`Error::Enclave`] with the first file that is missing or bad.
pub fn check(folder: &Path, domain: u16) -> Result<(), Error> {
    if !folder.is_dir() {
        return Err(bad(folder, "no such folder", "an enclave"));
    }
    let files = files(folder);
    let identity_ca = certificate(&files.identity_ca_certificate)?;
    let own = certificate(&files.participant_identity_certificate)?;
    let signed = identity_ca.public_key().and_then(|key| own.verify(&key));
    if !signed.unwrap_or(false) {
        let expected = "a certificate that the key of identity_ca.cert.pem has signed";
        let file = &files.participant_identity_certificate;
        return Err(bad(file, "another signature", expected));
    }
    private_key(&folder.join("key.pem"), &own)?;
    let permissions_ca = certificate(&files.permissions_ca_certificate)?;
    governance(&files.domain_governance_document, &permissions_ca, domain)?;
    permissions(&files.participant_permissions_document, &permissions_ca, &own)
}

fn read(file: &Path, expected: &str) -> Result<Vec<u8>, Error> {
    let data = std::fs::metadata(file).map_err(|error| bad(file, error.to_string(), expected))?;
    if !data.is_file() || data.len() > MAX_BYTES {
        return Err(bad(file, "not a file, or larger than any file of an enclave", expected));
    }
    std::fs::read(file).map_err(|error| bad(file, error.to_string(), expected))
}

/// A certificate that is valid today.
fn certificate(file: &Path) -> Result<X509, Error> {
    let expected = "an X.509 certificate in PEM (BEGIN CERTIFICATE)";
    let pem = read(file, expected)?;
    let certificate =
        X509::from_pem(&pem).map_err(|error| bad(file, error.to_string(), expected))?;
    let now =
        Asn1Time::days_from_now(0).map_err(|error| bad(file, error.to_string(), "a clock"))?;
    let (first, last) = (certificate.not_before(), certificate.not_after());
    if *first > *now || *last < *now {
        let found = format!("valid from {first} to {last}");
        return Err(bad(file, found, "a certificate that is valid now"));
    }
    Ok(certificate)
}

/// The key that belongs to a certificate, which only its owner may read.
fn private_key(file: &Path, own: &X509) -> Result<(), Error> {
    let expected = "a private key in PEM (PKCS#8: BEGIN PRIVATE KEY), not encrypted";
    let pem = read(file, expected)?;
    let mode = std::fs::metadata(file).map_err(|error| bad(file, error.to_string(), expected))?;
    let mode = mode.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        let found = format!("mode {mode:04o}, others than the owner have access");
        return Err(bad(file, found, "mode 0600: chmod 600"));
    }
    if !pem.starts_with(b"-----BEGIN PRIVATE KEY-----") {
        return Err(bad(file, "another form", expected));
    }
    let key = PKey::private_key_from_pem(&pem);
    let key = key.map_err(|error| bad(file, error.to_string(), expected))?;
    let curve = key.ec_key().ok().filter(|key| key.check_key().is_ok());
    if curve.and_then(|key| key.group().curve_name()) != Some(Nid::X9_62_PRIME256V1) {
        return Err(bad(file, "another key", "an EC key on prime256v1"));
    }
    match own.public_key() {
        Ok(public) if public.public_eq(&key) => Ok(()),
        _ => Err(bad(file, "another key", "the private key of cert.pem")),
    }
}

/// Protection that carries large messages between participants of RustDDS 0.15.1: keys of the
/// governance, values, and what to say of others.
const PROTECTION: &[(&str, &[&str], &str)] = &[
    (
        "data_protection_kind",
        &["NONE"],
        "NONE, and metadata_protection_kind ENCRYPT, which encrypts data, too",
    ),
    ("metadata_protection_kind", &["NONE", "ENCRYPT"], "NONE or ENCRYPT"),
    ("rtps_protection_kind", &["NONE", "SIGN", "ENCRYPT"], "NONE, SIGN or ENCRYPT"),
];

/// The governance document has a rule for the domain, and none in it that protects data by itself.
///
/// RustDDS 0.15.1 cannot read back what it writes then: it takes an encrypted fragment for one
/// that is too long, and looks for the tag of other data where padding is. Submessages that are
/// encrypted hide the same bytes.
fn governance(file: &Path, ca: &X509, domain: u16) -> Result<(), Error> {
    let text = signed(file, ca)?;
    let xml = parse(file, &text)?;
    let mut rules = xml.descendants().filter(|node| node.has_tag_name("domain_rule"));
    let is_for = |rule: &Node<'_, '_>| {
        rule.children().any(|node| node.has_tag_name("domains") && contains(node, domain))
    };
    let Some(rule) = rules.find(is_for) else {
        let found = format!("no domain_rule for domain {domain}");
        return Err(bad(file, found, "a rule for the domain that is joined"));
    };
    for (key, works, expected) in PROTECTION {
        let kinds = rule.descendants().filter(|node| node.has_tag_name(*key));
        let mut kinds = kinds.filter_map(|kind| kind.text().map(str::trim));
        if let Some(kind) = kinds.find(|kind| !works.contains(kind)) {
            return Err(bad(file, format!("{key} {kind}"), *expected));
        }
    }
    Ok(())
}

/// The permissions have a grant for the certificate that is valid today.
fn permissions(file: &Path, ca: &X509, own: &X509) -> Result<(), Error> {
    let text = signed(file, ca)?;
    let xml = parse(file, &text)?;
    let subject = subject(own.subject_name());
    let grants = xml.descendants().filter(|node| node.has_tag_name("grant"));
    let mut named = grants.filter(|grant| is_for(text_of(*grant, "subject_name"), &subject));
    let Some(grant) = named.next() else {
        let found = format!("no grant for {}", subject.join(","));
        return Err(bad(file, found, "a grant whose subject_name is the one of cert.pem"));
    };
    let validity = children(grant, "validity").next();
    let time = |name| validity.and_then(|validity| moment(text_of(validity, name)?));
    let now =
        Asn1Time::days_from_now(0).map_err(|error| bad(file, error.to_string(), "a clock"))?;
    match (time("not_before"), time("not_after")) {
        (Some(first), Some(last)) if first <= now && last >= now => Ok(()),
        _ => Err(bad(file, "a grant that is not valid now", "not_before and not_after around now")),
    }
}

/// The text of an S/MIME document, if the CA has signed it.
fn signed(file: &Path, ca: &X509) -> Result<String, Error> {
    let expected = "a document in S/MIME (multipart/signed)";
    let bytes = read(file, expected)?;
    let wrong = |error: openssl::error::ErrorStack| bad(file, error.to_string(), expected);
    let (signature, content) = Pkcs7::from_smime(&bytes).map_err(wrong)?;
    let mut certificates = Stack::new().map_err(wrong)?;
    certificates.push(ca.clone()).map_err(wrong)?;
    let store = X509StoreBuilder::new().map_err(wrong)?.build();
    let mut text = Vec::new();
    // Only this certificate counts, not those in the document and not what signed it.
    let flags = Pkcs7Flags::NOINTERN | Pkcs7Flags::NOVERIFY;
    signature.verify(&certificates, &store, content.as_deref(), Some(&mut text), flags).map_err(
        |_| {
            let expected = "a document that the key of permissions_ca.cert.pem has signed";
            bad(file, "a wrong signature or changed contents", expected)
        },
    )?;
    let text = String::from_utf8(text).map_err(|error| bad(file, error.to_string(), "UTF-8"))?;
    // After the header that `openssl smime -text` puts before it.
    let start = text.find('<').unwrap_or(text.len());
    Ok(text[start..].to_owned())
}

fn parse<'t>(file: &Path, text: &'t str) -> Result<Document<'t>, Error> {
    Document::parse(text).map_err(|error| bad(file, error.to_string(), "XML below the signature"))
}

fn children<'t>(node: Node<'t, 't>, name: &'t str) -> impl Iterator<Item = Node<'t, 't>> {
    node.children().filter(move |child| child.has_tag_name(name))
}

fn text_of<'t>(node: Node<'t, 't>, name: &'t str) -> Option<&'t str> {
    children(node, name).next()?.text().map(str::trim)
}

/// Returns true if `<domains>` has this one, by its id or in a range whose ends may be left out.
fn contains(domains: Node<'_, '_>, domain: u16) -> bool {
    let number = |text: Option<&str>, or: u16| text.map_or(Some(or), |text| text.parse().ok());
    domains.children().any(|node| match node.tag_name().name() {
        "id" => number(node.text().map(str::trim), 0) == Some(domain),
        "id_range" => {
            let first = number(text_of(node, "min"), 0);
            let last = number(text_of(node, "max"), u16::MAX);
            first.is_some_and(|n| n <= domain) && last.is_some_and(|n| n >= domain)
        }
        _ => false,
    })
}

/// The parts of a name as RFC 4514 writes them: the last one first.
fn subject(name: &X509NameRef) -> Vec<String> {
    let part = |entry: &openssl::x509::X509NameEntryRef| {
        let value = entry.data().to_string().unwrap_or_default();
        format!("{}={value}", entry.object().nid().short_name().unwrap_or_default())
    };
    let mut parts: Vec<String> = name.entries().map(part).collect();
    parts.reverse();
    parts
}

/// Returns true if a grant's name is this subject. A name with an escape is left to RustDDS.
fn is_for(name: Option<&str>, subject: &[String]) -> bool {
    name.is_some_and(|name| name.contains('\\') || name.split(',').map(str::trim).eq(subject))
}

/// `2026-01-31T12:00:00`, to the second; a time zone is left to RustDDS.
fn moment(text: &str) -> Option<Asn1Time> {
    let digits: String = text.chars().take(19).filter(char::is_ascii_digit).collect();
    Asn1Time::from_str_x509(&format!("{digits}Z")).ok()
}
