"""A foreign ROS 2 node for the tests: Cyclone DDS from the Python index, on loopback.

Types are made from the .msg and .srv files at run time, so that nothing here is shared with
Keeptime but those files and the rules of ROS 2: names of topics and types, the head of services
that rmw_cyclonedds writes, ros_discovery_info.

  ros_peer.py client DOMAIN MESSAGES   uses the node /robot/keeptime as a client on the graph
  ros_peer.py silent DOMAIN MESSAGES   registers, and then says nothing any more
  ros_peer.py node DOMAIN              is the node /foreign/adder: a topic and a service

With ROS_SECURITY_ENABLE=true it has the enclave that ROS 2's variables name; that takes a Cyclone DDS
with the security plugins, which Debian has and the Python index has not.
"""

import glob
import os
import re
import struct
import sys
import time

from cyclonedds.core import DDSStatus
from cyclonedds.domain import Domain, DomainParticipant
from cyclonedds.idl import make_idl_struct
from cyclonedds.idl import types as idl
from cyclonedds.pub import DataWriter
from cyclonedds.qos import Policy, Qos
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration

LOOPBACK = """<CycloneDDS><Domain>
<General><Interfaces><NetworkInterface address="127.0.0.1" multicast="false"/></Interfaces>
<AllowMulticast>false</AllowMulticast></General>
<Discovery><ParticipantIndex>auto</ParticipantIndex>
<MaxAutoParticipantIndex>30</MaxAutoParticipantIndex>
<Peers><Peer address="127.0.0.1"/></Peers></Discovery>
{security}</Domain></CycloneDDS>"""

PLAIN = {"bool": bool, "string": str, "byte": idl.uint8, "float64": idl.float64}
PLAIN |= {f"{kind}{bits}": getattr(idl, f"{kind}{bits}") for kind in ("int", "uint") for bits in (8, 16, 32, 64)}

OTHER = {
    "builtin_interfaces/Time": "int32 sec\nuint32 nanosec",
    "std_msgs/Header": "builtin_interfaces/Time stamp\nstring frame_id",
    "std_msgs/String": "string data",
    "diagnostic_msgs/KeyValue": "string key\nstring value",
    "diagnostic_msgs/DiagnosticStatus": "byte level\nstring name\nstring message\nstring hardware_id\nKeyValue[] values",
    "diagnostic_msgs/DiagnosticArray": "std_msgs/Header header\nDiagnosticStatus[] status",
    "rmw_dds_common/Gid": "uint8[16] data",
    "rmw_dds_common/NodeEntitiesInfo": "string node_namespace\nstring node_name\nGid[] reader_gid_seq\nGid[] writer_gid_seq",
    "rmw_dds_common/ParticipantEntitiesInfo": "Gid gid\nNodeEntitiesInfo[] node_entities_info_seq",
}
SERVICES = {"example_interfaces/AddTwoInts": "int64 a\nint64 b\n---\nint64 sum"}
MADE = {}


def structure(wire, text, package, before=()):
    """A class of Cyclone DDS for the fields of an interface file."""
    fields = list(before)
    for line in text.splitlines():
        line = line.split("#")[0].strip()
        if line and "=" not in line.split()[-1]:
            kind, name = line.split()
            fields.append((name, field(kind, package)))
    return make_idl_struct(wire.split("::")[-1], wire, dict(fields))


def field(kind, package):
    match = re.fullmatch(r"(.+?)(\[(?:(<=)?(\d+))?\])?", kind)
    base, listed, bounded, count = match.groups()
    base = PLAIN[base] if base in PLAIN else message(base if "/" in base else f"{package}/{base}")
    if not listed:
        return base
    if count and not bounded:
        return idl.array[base, int(count)]
    return idl.sequence[base, int(count)] if count else idl.sequence[base]


def message(name):
    package, kind = name.split("/")
    if name not in MADE:
        text = OTHER[name] if name in OTHER else read(f"msg/{kind}.msg")
        MADE[name] = structure(f"{package}::msg::dds_::{kind}_", text, package)
    return MADE[name]


def service(name):
    package, kind = name.split("/")
    text = SERVICES[name] if name in SERVICES else read(f"srv/{kind}.srv")
    head = [("guid", idl.uint64), ("number", idl.int64)]
    halves = zip(("Request", "Response"), text.split("\n---\n"))
    return [structure(f"{package}::srv::dds_::{kind}_{half}_", part, package, head) for half, part in halves]


def read(file):
    with open(os.path.join(sys.argv[3], file)) as text:
        return text.read()


RELIABLE = Policy.Reliability.Reliable(duration(seconds=1))
USUAL = Qos(RELIABLE, Policy.History.KeepLast(10))
KEPT = Qos(RELIABLE, Policy.Durability.TransientLocal, Policy.History.KeepAll)


def security():
    """What rmw_cyclonedds tells Cyclone DDS of the enclave that ROS 2's variables name."""
    if os.environ.get("ROS_SECURITY_ENABLE") != "true":
        return ""
    enclave = os.environ["ROS_SECURITY_KEYSTORE"] + "/enclaves" + os.environ["ROS_SECURITY_ENCLAVE_OVERRIDE"]
    parts = [
        ("Authentication", "auth", "authentication",
         dict(IdentityCA="identity_ca.cert.pem", IdentityCertificate="cert.pem", PrivateKey="key.pem")),
        ("AccessControl", "ac", "access_control",
         dict(PermissionsCA="permissions_ca.cert.pem", Governance="governance.p7s", Permissions="permissions.p7s")),
        ("Cryptographic", "crypto", "crypto", {}),
    ]
    text = ""
    for part, plugin, name, files in parts:
        library = glob.glob(f"/usr/lib/*/libddsc*/libdds_security_{plugin}.so")[0]
        text += f'<{part}><Library path="{library}" initFunction="init_{name}" finalizeFunction="finalize_{name}"/>'
        text += "".join(f"<{key}>file:{enclave}/{file}</{key}>" for key, file in files.items()) + f"</{part}>"
    return f"<Security>{text}</Security>"


class Peer:
    def __init__(self, domain):
        self.domain = Domain(domain, LOOPBACK.format(security=security()))
        self.participant = DomainParticipant(domain)

    def reader(self, topic, kind, qos=USUAL):
        return DataReader(self.participant, Topic(self.participant, topic, kind, qos=qos), qos=qos)

    def writer(self, topic, kind, qos=USUAL):
        return DataWriter(self.participant, Topic(self.participant, topic, kind, qos=qos), qos=qos)


def valid(reader):
    return [sample for sample in reader.take(N=100) if sample.sample_info.valid_data]


def until(what, ask, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        answer = ask()
        if answer:
            return answer
        time.sleep(0.01)
    sys.exit(f"{what}: nothing within {seconds} s")


class Call:
    """A client of a service, as rmw_cyclonedds is one."""

    def __init__(self, peer, name, kind):
        self.name = name
        self.request, response = service(kind)
        self.writer = peer.writer(f"rq{name}Request", self.request)
        self.reader = peer.reader(f"rr{name}Reply", response)
        self.guid = struct.unpack("<Q", os.urandom(8))[0]
        self.number = 0

    def send(self, **fields):
        self.number += 1
        self.writer.write(self.request(guid=self.guid, number=self.number, **fields))
        return self.number

    def answers(self):
        return [sample for sample in valid(self.reader) if sample.guid == self.guid]

    def ready(self):
        """Discovery is over when both sides have found each other; requests before that are lost."""
        until(f"the service {self.name}", lambda: self.writer.read_status(DDSStatus.PublicationMatched))
        until(f"answers of {self.name}", lambda: self.reader.read_status(DDSStatus.SubscriptionMatched))
        time.sleep(0.2)

    def __call__(self, **fields):
        self.ready()
        for _ in range(20):
            sent = self.send(**fields)
            end = time.monotonic() + 1
            while time.monotonic() < end:
                for answer in self.answers():
                    if answer.number == sent:
                        return answer
                time.sleep(0.005)
        sys.exit(f"{self.name}: no answer")


def nodes(reader, known={}):
    """Names of nodes, with how many readers each has and the id of its participant."""
    for sample in valid(reader):
        for node in sample.node_entities_info_seq:
            name = node.node_namespace.rstrip("/") + "/" + node.node_name
            known[name] = (len(node.reader_gid_seq), bytes(sample.gid.data))
    return known


def registration(peer, client, **changes):
    register = Call(peer, "/robot/keeptime/register", "keeptime_msgs/RegisterChain")
    fields = dict(
        client=list(client), sequence=1, chain="perception", priority=7, service="vecadd", accelerator="",
        memory_bytes=12288, callback=5,
    )
    return register, fields | changes, register(**(fields | changes))


def client(domain):
    peer = Peer(domain)
    info = peer.reader("ros_discovery_info", message("rmw_dds_common/ParticipantEntitiesInfo"), KEPT)
    until("the node", lambda: nodes(info).get("/robot/keeptime", (0,))[0] >= 5)
    # Of two secured participants the one with the lower id begins the handshake.
    lower = "foreign" if peer.participant.guid.bytes < nodes(info)["/robot/keeptime"][1] else "server"
    print(f"{lower} id is lower")

    identity = os.urandom(16)
    register, fields, answer = registration(peer, identity)
    assert answer.result.code == 0, answer
    again = register(**fields)
    assert (again.registration, again.submit_service) == (answer.registration, answer.submit_service), again
    print(f"registered {answer.chain} bucket {answer.bucket}")
    refused = register(**(fields | dict(sequence=2, priority=1000)))
    assert refused.result.code == 1 and "priority" in refused.result.reason, refused
    refused = register(**(fields | dict(sequence=3, service="matmul")))
    assert refused.result.code == 1 and "service" in refused.result.reason, refused
    refused = register(**(fields | dict(sequence=4, chain="a\nb")))
    assert refused.result.code == 2 and "chain" in refused.result.reason, refused

    submit = Call(peer, answer.submit_service, "keeptime_msgs/Submit")
    count = 1000
    numbers = [float(i) for i in range(2 * count)]
    request = dict(
        client=list(identity), registration=answer.registration, sequence=1, timeout_ns=0, arguments=[count],
        input=list(struct.pack(f"<{2 * count}f", *numbers)), output_bytes=4 * count,
    )
    done = submit(**request)
    assert done.result.code == 0, done.result
    sums = struct.unpack(f"<{count}f", bytes(done.output))
    assert list(sums) == [numbers[i] + numbers[i + count] for i in range(count)]
    assert done.executed_ns > 0 and not done.repeated, (done.executed_ns, done.repeated)
    repeated = submit(**request)
    assert repeated.repeated and repeated.output == done.output and repeated.executed_ns == done.executed_ns
    for changes, code in [
        (dict(client=[9] * 16), 3),
        (dict(sequence=0), 4),
        (dict(sequence=2, output_bytes=2**63), 2),
        (dict(sequence=3, timeout_ns=1), 5),
    ]:
        wrong = submit(**(request | changes))
        assert wrong.result.code == code and not list(wrong.output), (changes, wrong.result)
    print("submitted")

    lists = Call(peer, "/robot/keeptime/list_chains", "keeptime_msgs/ListChains")
    chains = {chain.name: chain for chain in lists(remote_only=True).chains}
    mine = chains[answer.chain]
    assert (mine.priority, mine.remote, mine.remote_requests, mine.remote_expired) == (7, True, 1, 1), mine
    assert mine.remote_repeated >= 1 and mine.remote_longest_ns > done.executed_ns, mine
    query = Call(peer, "/robot/keeptime/query_chain", "keeptime_msgs/QueryChain")
    assert query(chain=answer.chain).chain.priority == 7
    assert query(chain="nobody").result.code == 3
    print("listed")

    status = peer.reader("rt/robot/keeptime/status", message("keeptime_msgs/Status"))
    shown = until("status", lambda: next((s for s in valid(status) if s.connected and s.gateway.registrations), None))
    assert [a.id for a in shown.accelerators] == ["gpu0"], shown
    assert abs(shown.stamp.sec - time.time()) < 60 and answer.chain in [c.name for c in shown.chains], shown
    diagnostics = peer.reader("rt/diagnostics", message("diagnostic_msgs/DiagnosticArray"))
    array = until("diagnostics", lambda: valid(diagnostics))[0]
    assert array.status[0].name == "keeptime: server" and array.status[0].level == 0, array
    print("watched")

    alive = Call(peer, "/robot/keeptime/keep_alive", "keeptime_msgs/KeepAlive")
    assert alive(client=list(identity)).result.code == 0
    assert alive(client=[9] * 16).result.code == 3
    leave = Call(peer, "/robot/keeptime/deregister", "keeptime_msgs/DeregisterChain")
    assert leave(client=[9] * 16, registration=answer.registration).result.code == 3
    assert leave(client=list(identity), registration=answer.registration).result.code == 0
    until("the chain's end", lambda: answer.chain not in [chain.name for chain in lists(remote_only=True).chains])
    print("left")


def silent(domain):
    peer = Peer(domain)
    _, _, answer = registration(peer, os.urandom(16))
    assert answer.result.code == 0, answer
    print(f"registered {answer.chain} bucket {answer.bucket}", flush=True)
    time.sleep(600)


def node(domain):
    peer = Peer(domain)
    infos = message("rmw_dds_common/ParticipantEntitiesInfo")
    entities, gid = message("rmw_dds_common/NodeEntitiesInfo"), message("rmw_dds_common/Gid")
    info = peer.writer("ros_discovery_info", infos, Qos(RELIABLE, Policy.Durability.TransientLocal))
    request, response = service("example_interfaces/AddTwoInts")
    requests = peer.reader("rq/foreign/addRequest", request)
    responses = peer.writer("rr/foreign/addReply", response)
    chatter = peer.writer("rt/foreign/chatter", message("std_msgs/String"))
    answers = peer.reader("rt/foreign/answer", message("std_msgs/String"))
    echo = structure("keeptime_test::srv::dds_::Echo_Response_", "string data", "std_msgs")
    echoes = peer.reader("rr/foreign/echoReply", echo)
    ids = [gid(list(entity.guid.bytes)) for entity in (peer.participant, requests, responses)]
    info.write(infos(ids[0], [entities("/foreign", "adder", [ids[1]], [ids[2]])]))
    print("ready", flush=True)
    count = 0
    while True:
        for one in valid(requests):
            responses.write(response(guid=one.guid, number=one.number, sum=one.a + one.b))
        for text in valid(answers):
            print(f"heard {text.data}", flush=True)
        for text in valid(echoes):
            print(f"an answer of {len(text.data)} characters", flush=True)
        count += 1
        chatter.write(message("std_msgs/String")(f"word {count}"))
        time.sleep(0.01)


if __name__ == "__main__":
    {"client": client, "silent": silent, "node": node}[sys.argv[1]](int(sys.argv[2]))
