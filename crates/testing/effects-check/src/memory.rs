//! A store in memory that answers like kube-apiserver, for the few requests that effects and cases make.
//!
//! It must be exact in these rules: a pod is bound once; a UID in a write must be the pod's; a pod with a node
//! leaves within its grace period, one without a node goes at once; an existing object is not created again.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cluster_apply::Writes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::{Value as Json, json};

use crate::server::Server;

/// The time of all creations and deletions: cases have their own time.
const THEN: &str = "2026-01-01T00:00:00Z";
/// The server's timeout of every write.
const WRITE_TIMEOUT: Duration = Duration::from_secs(4);
/// The priority classes of `deploy/priority-classes.yaml`.
const TIERS: [(&str, i32); 4] = [
    ("warpyard-exploration", 1_000),
    ("warpyard-research", 2_000),
    ("warpyard-deadline", 3_000),
    ("warpyard-production", 4_000),
];

/// A new, empty store. Call it in a runtime whose clock stands still while any task can run, so that waits take
/// no time and the first look comes when all work is done.
pub fn server() -> Server {
    let client = client();
    Server {
        writes: Writes::new(client.clone(), WRITE_TIMEOUT),
        client,
        epoch: 1,
        namespace: "cases".to_owned(),
        now: THEN.parse().expect("a time"),
        patience: Duration::from_mins(2),
        pause: Duration::from_millis(1),
    }
}

fn client() -> Client {
    let store = Arc::<Mutex<Store>>::default();
    let service = tower::service_fn(move |request: Request<Body>| {
        let store = Arc::clone(&store);
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            let body = serde_json::from_slice(&body).unwrap_or(Json::Null);
            let path: Vec<&str> = head.uri.path().trim_matches('/').split('/').collect();
            let mut store = store.lock().unwrap_or_else(PoisonError::into_inner);
            let (code, answer) = match store.answer(&head.method, &path, body) {
                Ok(object) => (StatusCode::OK, object),
                Err(code) => (code, refusal(code)),
            };
            let mut response = Response::new(Body::from(answer.to_string().into_bytes()));
            *response.status_mut() = code;
            Ok::<_, Infallible>(response)
        }
    });
    Client::new(service, "default")
}

type Answer = Result<Json, StatusCode>;
/// Namespace and name.
type Key = (String, String);

#[derive(Default)]
struct Store {
    pods: BTreeMap<Key, Json>,
    holds: BTreeMap<Key, Json>,
    uids: u64,
}

impl Store {
    fn answer(&mut self, method: &Method, path: &[&str], body: Json) -> Answer {
        let namespaced = path.iter().position(|part| *part == "namespaces").map(|at| &path[at + 1..]);
        match (namespaced.unwrap_or_default(), method) {
            ([namespace, "pods"], &Method::GET) => Ok(list(&self.pods, namespace)),
            ([namespace, "pods"], &Method::POST) => self.create_pod(namespace, body),
            ([namespace, "pods", name], &Method::GET) => self.pod(namespace, name).cloned(),
            ([namespace, "pods", name], &Method::DELETE) => self.delete_pod(namespace, name, &body),
            ([namespace, "pods", name, "binding"], &Method::POST) => self.bind(namespace, name, &body),
            ([namespace, "pods", name, "status"], &Method::PATCH) => {
                self.patch_status(namespace, name, &body)
            }
            ([namespace, "holds"], &Method::GET) => Ok(list(&self.holds, namespace)),
            ([namespace, "holds"], &Method::POST) => {
                let name = text(&body["metadata"]["name"]);
                let key = (String::from(*namespace), name);
                create(&mut self.holds, key, &mut self.uids, body)
            }
            ([namespace, "holds", name], &Method::PATCH) => {
                let hold = self.holds.get_mut(&key(namespace, name)).ok_or(StatusCode::NOT_FOUND)?;
                merge(hold, body);
                Ok(hold.clone())
            }
            ([namespace, "holds", name], &Method::DELETE) => {
                self.holds.remove(&key(namespace, name)).ok_or(StatusCode::NOT_FOUND)
            }
            // Events for people are not judged here.
            ([_, "events"], &Method::POST) => Ok(body),
            _ => Err(StatusCode::METHOD_NOT_ALLOWED),
        }
    }

    fn pod(&mut self, namespace: &str, name: &str) -> Result<&mut Json, StatusCode> {
        self.pods.get_mut(&key(namespace, name)).ok_or(StatusCode::NOT_FOUND)
    }

    fn create_pod(&mut self, namespace: &str, mut pod: Json) -> Answer {
        let tier = text(&pod["spec"]["priorityClassName"]);
        let priority = TIERS.iter().find(|(name, _)| *name == tier).map_or(0, |(_, priority)| *priority);
        pod["spec"]["priority"] = priority.into();
        pod["status"] = json!({ "phase": "Pending" });
        let key = (namespace.to_owned(), text(&pod["metadata"]["name"]));
        create(&mut self.pods, key, &mut self.uids, pod)
    }

    fn bind(&mut self, namespace: &str, name: &str, binding: &Json) -> Answer {
        let pod = self.pod(namespace, name)?;
        must_be(pod, &binding["metadata"]["uid"])?;
        if !pod["spec"]["nodeName"].is_null() || !pod["metadata"]["deletionTimestamp"].is_null() {
            return Err(StatusCode::CONFLICT);
        }
        pod["spec"]["nodeName"] = binding["target"]["name"].clone();
        add_condition(pod, json!({ "type": "PodScheduled", "status": "True", "lastTransitionTime": THEN }));
        Ok(json!({ "kind": "Status", "apiVersion": "v1", "status": "Success", "code": 201 }))
    }

    fn patch_status(&mut self, namespace: &str, name: &str, patch: &Json) -> Answer {
        let pod = self.pod(namespace, name)?;
        must_be(pod, &patch["metadata"]["uid"])?;
        for condition in patch["status"]["conditions"].as_array().into_iter().flatten() {
            add_condition(pod, condition.clone());
        }
        Ok(pod.clone())
    }

    fn delete_pod(&mut self, namespace: &str, name: &str, options: &Json) -> Answer {
        let pod = self.pod(namespace, name)?;
        must_be(pod, &options["preconditions"]["uid"])?;
        let at_once = options["gracePeriodSeconds"] == 0 || pod["spec"]["nodeName"].is_null();
        pod["metadata"]["deletionTimestamp"] = THEN.into();
        let deleted = pod.clone();
        if at_once {
            self.pods.remove(&key(namespace, name));
        }
        Ok(deleted)
    }
}

fn create(objects: &mut BTreeMap<Key, Json>, key: Key, uids: &mut u64, mut object: Json) -> Answer {
    if objects.contains_key(&key) {
        return Err(StatusCode::CONFLICT);
    }
    *uids += 1;
    object["metadata"]["namespace"] = key.0.clone().into();
    object["metadata"]["uid"] = format!("uid-{uids}").into();
    object["metadata"]["creationTimestamp"] = THEN.into();
    objects.insert(key, object.clone());
    Ok(object)
}

fn list(objects: &BTreeMap<Key, Json>, namespace: &str) -> Json {
    let items: Vec<&Json> =
        objects.iter().filter(|((of, _), _)| of == namespace).map(|(_, object)| object).collect();
    json!({ "kind": "List", "apiVersion": "v1", "metadata": {}, "items": items })
}

fn key(namespace: &str, name: &str) -> Key {
    (namespace.to_owned(), name.to_owned())
}

fn text(value: &Json) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A write with a UID applies only to the object with this UID.
fn must_be(object: &Json, uid: &Json) -> Result<(), StatusCode> {
    let is_meant = uid.is_null() || *uid == object["metadata"]["uid"];
    if is_meant { Ok(()) } else { Err(StatusCode::CONFLICT) }
}

fn add_condition(pod: &mut Json, condition: Json) {
    let conditions = &mut pod["status"]["conditions"];
    if conditions.is_null() {
        *conditions = json!([]);
    }
    if let Some(conditions) = conditions.as_array_mut() {
        conditions.retain(|known| known["type"] != condition["type"]);
        conditions.push(condition);
    }
}

/// A JSON merge patch.
fn merge(target: &mut Json, patch: Json) {
    match patch {
        Json::Object(fields) => {
            for (name, value) in fields {
                if value.is_null() {
                    if let Some(target) = target.as_object_mut() {
                        target.remove(&name);
                    }
                } else {
                    merge(&mut target[name], value);
                }
            }
        }
        value => *target = value,
    }
}

fn refusal(code: StatusCode) -> Json {
    json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code.as_u16(),
        "message": code.canonical_reason(), "reason": code.canonical_reason(),
    })
}
