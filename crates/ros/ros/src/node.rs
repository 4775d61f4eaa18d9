//! A node: a name on the graph, and what it publishes, subscribes, serves and calls.

use crate::Subscription;
use crate::context::Dds;
use crate::{Client, Error, Mapping, Message, NodeName, Publisher, Qos, Server, Service};
use rustdds::GUID;
use std::sync::Arc;

/// A node of this process.
pub struct Node {
    endpoints: Arc<Endpoints>,
}

impl Node {
    pub(crate) fn new(endpoints: Endpoints) -> Node {
        Node { endpoints: Arc::new(endpoints) }
    }

    /// Its namespace and name.
    pub fn name(&self) -> &NodeName {
        self.endpoints.name()
    }

    /// A publisher of a topic: `/absolute`, `relative` to the namespace, or `~/private`.
    ///
    /// # Errors
    /// [`Error::Name`], [`Error::Create`].
    pub fn publisher<M: Message>(&self, topic: &str, qos: Qos) -> Result<Publisher<M>, Error> {
        Publisher::new(&self.endpoints, topic, &qos)
    }

    /// A subscription to a topic.
    ///
    /// # Errors
    /// [`Error::Name`], [`Error::Create`].
    pub fn subscription<M: Message>(
        &self,
        topic: &str,
        qos: Qos,
    ) -> Result<Subscription<M>, Error> {
        Subscription::new(&self.endpoints, topic, &qos)
    }

    /// Serves a service. Of the quality, `depth`, `max_bytes` (of a request) and `window` count.
    ///
    /// # Errors
    /// [`Error::Name`], [`Error::Create`].
    pub fn server<S: Service>(
        &self,
        service: &str,
        mapping: Mapping,
        qos: Qos,
    ) -> Result<Server<S>, Error> {
        Server::new(&self.endpoints, service, mapping, &qos)
    }

    /// A caller of a service.
    ///
    /// # Errors
    /// [`Error::Name`], [`Error::Create`].
    pub fn client<S: Service>(
        &self,
        service: &str,
        mapping: Mapping,
        qos: Qos,
    ) -> Result<Client<S>, Error> {
        Client::new(&self.endpoints, service, mapping, &qos)
    }
}

/// A node as its endpoints know it. The last of them takes it from the graph.
pub(crate) struct Endpoints {
    dds: Arc<Dds>,
    name: NodeName,
}

impl Endpoints {
    pub(crate) fn new(dds: Arc<Dds>, name: NodeName) -> Endpoints {
        Endpoints { dds, name }
    }

    pub(crate) fn context(&self) -> &Dds {
        &self.dds
    }

    pub(crate) fn name(&self) -> &NodeName {
        &self.name
    }

    pub(crate) fn add_reader(&self, reader: GUID) {
        self.dds.change(&self.name, |entities| _ = entities.readers.insert(reader));
    }

    pub(crate) fn add_writer(&self, writer: GUID) {
        self.dds.change(&self.name, |entities| _ = entities.writers.insert(writer));
    }

    pub(crate) fn remove_reader(&self, reader: GUID) {
        self.dds.change(&self.name, |entities| _ = entities.readers.remove(&reader));
    }

    pub(crate) fn remove_writer(&self, writer: GUID) {
        self.dds.change(&self.name, |entities| _ = entities.writers.remove(&writer));
    }
}

impl Drop for Endpoints {
    fn drop(&mut self) {
        self.dds.remove(&self.name);
    }
}
