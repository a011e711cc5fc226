//! The objects and their recent history. One lock, one counter of resource versions: every change gets the next one,
//! and a bounded history of changes serves watches and lists of an earlier version. Removal of an object that waits
//! for its finalizers or its kubelet happens here and nowhere else.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::sync::watch;

use crate::json;
use crate::resource::{Key, Resource};
use crate::status::{ApiError, Result};

/// Changes kept for watches; a watch from before them is told to list again.
const HISTORY: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangeKind {
    Added,
    Modified,
    Deleted,
}

#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) revision: u64,
    pub(crate) kind: ChangeKind,
    pub(crate) key: Key,
    pub(crate) before: Option<Arc<Value>>,
    pub(crate) object: Arc<Value>,
}

struct Contents {
    revision: u64,
    /// Changes after this revision are all in `history`.
    compacted: u64,
    objects: BTreeMap<Key, Arc<Value>>,
    history: VecDeque<Change>,
}

pub(crate) struct Store {
    contents: Mutex<Contents>,
    latest: watch::Sender<u64>,
}

/// `DeleteOptions`, as far as they matter here.
#[derive(Debug, Default, Clone)]
pub(crate) struct DeleteOptions {
    pub(crate) grace: Option<i64>,
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) dry_run: bool,
}

impl Store {
    pub(crate) fn new() -> Self {
        // A real server never shows small versions; 1000 makes a mistaken 0 or 1 visible.
        let contents = Contents {
            revision: 1000,
            compacted: 1000,
            objects: BTreeMap::new(),
            history: VecDeque::new(),
        };
        Self {
            contents: Mutex::new(contents),
            latest: watch::Sender::new(1000),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells of every change: the value is the newest resource version.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.latest.subscribe()
    }

    pub(crate) fn revision(&self) -> u64 {
        self.lock().revision
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Arc<Value>> {
        self.lock().objects.get(key).cloned()
    }

    pub(crate) fn find(&self, key: &Key) -> Result<Arc<Value>> {
        self.get(key)
            .ok_or_else(|| ApiError::not_found(key.resource, &key.name))
    }

    /// All objects of a resource, in every namespace if `namespace` is none, with the version they were read at.
    pub(crate) fn list(&self, resource: Resource, namespace: Option<&str>) -> (u64, Vec<Arc<Value>>) {
        let contents = self.lock();
        (contents.revision, select(&contents.objects, resource, namespace))
    }

    /// The objects as they were at an earlier version, found by taking the later changes back.
    pub(crate) fn list_at(
        &self,
        resource: Resource,
        namespace: Option<&str>,
        revision: u64,
    ) -> Result<Vec<Arc<Value>>> {
        let contents = self.lock();
        if revision < contents.compacted || revision > contents.revision {
            return Err(ApiError::expired(
                "The provided continue parameter is too old to display a consistent list result.",
            ));
        }
        let mut objects = contents.objects.clone();
        for change in contents
            .history
            .iter()
            .rev()
            .take_while(|change| change.revision > revision)
        {
            match &change.before {
                Some(before) => objects.insert(change.key.clone(), before.clone()),
                None => objects.remove(&change.key),
            };
        }
        Ok(select(&objects, resource, namespace))
    }

    /// The changes of a resource after `revision`, and the version read up to.
    pub(crate) fn changes_since(
        &self,
        resource: Resource,
        namespace: Option<&str>,
        revision: u64,
    ) -> Result<(u64, Vec<Change>)> {
        let contents = self.lock();
        if revision < contents.compacted {
            let message = format!("too old resource version: {revision} ({})", contents.compacted);
            return Err(ApiError::expired(message));
        }
        let mut changes: Vec<Change> = contents
            .history
            .iter()
            .rev()
            .take_while(|change| change.revision > revision)
            .filter(|change| change.key.resource == resource)
            .filter(|change| namespace.is_none_or(|namespace| change.key.namespace == namespace))
            .cloned()
            .collect();
        changes.reverse();
        Ok((contents.revision, changes))
    }

    /// Forgets the history: every watch and page from before is answered with 410.
    pub(crate) fn compact(&self) {
        let mut contents = self.lock();
        contents.history.clear();
        contents.revision += 1;
        contents.compacted = contents.revision;
        self.latest.send_replace(contents.revision);
    }

    pub(crate) fn create(&self, key: &Key, mut object: Value, dry_run: bool) -> Result<Arc<Value>> {
        let mut contents = self.lock();
        if key.resource != Resource::Namespaces {
            let namespace = Key::new(Resource::Namespaces, "", &key.namespace);
            if !contents.objects.contains_key(&namespace) {
                return Err(ApiError::not_found(Resource::Namespaces, &key.namespace));
            }
        }
        if contents.objects.contains_key(key) {
            return Err(ApiError::already_exists(key.resource, &key.name));
        }
        json::set(&mut object, &["metadata"], "uid", uuid::Uuid::new_v4().to_string());
        json::set(&mut object, &["metadata"], "creationTimestamp", json::now());
        if dry_run {
            return Ok(Arc::new(object));
        }
        Ok(self.commit(&mut contents, ChangeKind::Added, key, object))
    }

    /// Changes an object in one step. An edit that changes nothing makes no new version.
    pub(crate) fn update(
        &self,
        key: &Key,
        dry_run: bool,
        edit: impl FnOnce(&Value, &mut Value) -> Result<()>,
    ) -> Result<Arc<Value>> {
        let mut contents = self.lock();
        let Some(current) = contents.objects.get(key).cloned() else {
            return Err(ApiError::not_found(key.resource, &key.name));
        };
        let mut object = Value::clone(&current);
        edit(&current, &mut object)?;
        if object == *current {
            return Ok(current);
        }
        if dry_run {
            return Ok(Arc::new(object));
        }
        let kind = if may_go(&object) {
            ChangeKind::Deleted
        } else {
            ChangeKind::Modified
        };
        Ok(self.commit(&mut contents, kind, key, object))
    }

    /// Deletes, or marks as being deleted while a kubelet or a finalizer still needs the object.
    /// The second part of the answer tells whether the object is gone.
    pub(crate) fn delete(&self, key: &Key, options: &DeleteOptions) -> Result<(Arc<Value>, bool)> {
        let mut contents = self.lock();
        let Some(current) = contents.objects.get(key).cloned() else {
            return Err(ApiError::not_found(key.resource, &key.name));
        };
        check_preconditions(key, &current, options)?;
        let mut object = Value::clone(&current);
        mark_deleted(key.resource, &mut object, options.grace);
        let gone = may_go(&object);
        if options.dry_run || (object == *current && !gone) {
            return Ok((Arc::new(object), gone));
        }
        let kind = if gone {
            ChangeKind::Deleted
        } else {
            ChangeKind::Modified
        };
        Ok((self.commit(&mut contents, kind, key, object), gone))
    }

    fn commit(&self, contents: &mut Contents, kind: ChangeKind, key: &Key, mut object: Value) -> Arc<Value> {
        contents.revision += 1;
        let revision = contents.revision;
        json::set(&mut object, &["metadata"], "resourceVersion", revision.to_string());
        let object = Arc::new(object);
        let before = match kind {
            ChangeKind::Deleted => contents.objects.remove(key),
            ChangeKind::Added | ChangeKind::Modified => contents.objects.insert(key.clone(), object.clone()),
        };
        contents.history.push_back(Change {
            revision,
            kind,
            key: key.clone(),
            before,
            object: object.clone(),
        });
        while contents.history.len() > HISTORY {
            if let Some(forgotten) = contents.history.pop_front() {
                contents.compacted = forgotten.revision;
            }
        }
        self.latest.send_replace(revision);
        object
    }
}

fn select(objects: &BTreeMap<Key, Arc<Value>>, resource: Resource, namespace: Option<&str>) -> Vec<Arc<Value>> {
    objects
        .iter()
        .filter(|(key, _)| key.resource == resource)
        .filter(|(key, _)| namespace.is_none_or(|namespace| key.namespace == namespace))
        .map(|(_, object)| object.clone())
        .collect()
}

pub(crate) fn is_terminal(pod: &Value) -> bool {
    matches!(json::text(pod, "/status/phase"), "Succeeded" | "Failed")
}

pub(crate) fn is_deleting(object: &Value) -> bool {
    !json::text(object, "/metadata/deletionTimestamp").is_empty()
}

fn grace_of(object: &Value) -> i64 {
    object
        .pointer("/metadata/deletionGracePeriodSeconds")
        .and_then(Value::as_i64)
        .unwrap_or(0)
}

fn may_go(object: &Value) -> bool {
    is_deleting(object) && grace_of(object) == 0 && json::list(object, "/metadata/finalizers").is_empty()
}

fn check_preconditions(key: &Key, current: &Value, options: &DeleteOptions) -> Result<()> {
    let uid = json::text(current, "/metadata/uid");
    if let Some(wanted) = &options.uid
        && wanted != uid
    {
        let why = format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {uid}");
        return Err(ApiError::conflict(key.resource, &key.name, &why));
    }
    let version = json::text(current, "/metadata/resourceVersion");
    if let Some(wanted) = &options.resource_version
        && wanted != version
    {
        let why = format!(
            "Precondition failed: ResourceVersion in precondition: {wanted}, ResourceVersion in object meta: {version}"
        );
        return Err(ApiError::conflict(key.resource, &key.name, &why));
    }
    Ok(())
}

fn mark_deleted(resource: Resource, object: &mut Value, asked: Option<i64>) {
    let asked = asked.map(|seconds| if seconds < 0 { 1 } else { seconds });
    let grace = match resource {
        Resource::Pods if json::text(object, "/spec/nodeName").is_empty() || is_terminal(object) => 0,
        Resource::Pods => asked.unwrap_or_else(|| {
            object
                .pointer("/spec/terminationGracePeriodSeconds")
                .and_then(Value::as_i64)
                .unwrap_or(30)
        }),
        _ => 0,
    };
    if is_deleting(object) && (grace >= grace_of(object) || (asked.is_none() && grace > 0)) {
        return; // a later deletion may only shorten
    }
    let at = jiff::Timestamp::now()
        .checked_add(jiff::SignedDuration::from_secs(grace))
        .unwrap_or_else(|_| jiff::Timestamp::now());
    let metadata = json::object(object, &["metadata"]);
    metadata.insert("deletionTimestamp".to_owned(), json!(json::time(at)));
    metadata.insert("deletionGracePeriodSeconds".to_owned(), json!(grace));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> (Store, Key) {
        let store = Store::new();
        store
            .create(
                &Key::new(Resource::Namespaces, "", "n"),
                json!({"metadata": {"name": "n"}}),
                false,
            )
            .unwrap();
        (store, Key::new(Resource::Pods, "n", "a"))
    }

    fn pod() -> Value {
        json!({"metadata": {"name": "a", "namespace": "n"}, "spec": {"nodeName": "here"}})
    }

    #[test]
    fn names_are_taken_once_and_namespaces_must_exist() {
        let (store, key) = store();
        store.create(&key, pod(), false).unwrap();
        let error = store.create(&key, pod(), false).unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (409, "pods \"a\" already exists"));
        let error = store
            .create(&Key::new(Resource::Pods, "other", "a"), pod(), false)
            .unwrap_err();
        assert_eq!(
            (error.code, error.message.as_str()),
            (404, "namespaces \"other\" not found")
        );
    }

    #[test]
    fn dry_runs_store_nothing() {
        let (store, key) = store();
        store.create(&key, pod(), true).unwrap();
        assert!(store.get(&key).is_none());
    }

    #[test]
    fn an_edit_without_effect_makes_no_version() {
        let (store, key) = store();
        let made = store.create(&key, pod(), false).unwrap();
        assert_eq!(made, store.update(&key, false, |_, _| Ok(())).unwrap());
    }

    #[test]
    fn pods_go_after_their_grace_and_their_finalizers() {
        let (store, key) = store();
        let mut object = pod();
        json::set(&mut object, &["metadata"], "finalizers", json!(["x/y"]));
        store.create(&key, object, false).unwrap();
        let (object, gone) = store.delete(&key, &DeleteOptions::default()).unwrap();
        assert!(!gone);
        assert_eq!(grace_of(&object), 30);
        let shorter = DeleteOptions {
            grace: Some(5),
            ..DeleteOptions::default()
        };
        assert_eq!(grace_of(&store.delete(&key, &shorter).unwrap().0), 5);
        let longer = DeleteOptions {
            grace: Some(50),
            ..DeleteOptions::default()
        };
        assert_eq!(grace_of(&store.delete(&key, &longer).unwrap().0), 5);
        let now = DeleteOptions {
            grace: Some(0),
            ..DeleteOptions::default()
        };
        assert!(!store.delete(&key, &now).unwrap().1, "a finalizer is left");
        store
            .update(&key, false, |_, pod| {
                json::remove(pod, &["metadata"], "finalizers");
                Ok(())
            })
            .unwrap();
        assert!(store.get(&key).is_none());
    }

    #[test]
    fn preconditions_protect_a_successor() {
        let (store, key) = store();
        store.create(&key, pod(), false).unwrap();
        let other = DeleteOptions {
            uid: Some("other".into()),
            ..DeleteOptions::default()
        };
        assert_eq!(store.delete(&key, &other).unwrap_err().code, 409);
        let old = DeleteOptions {
            resource_version: Some("1".into()),
            ..DeleteOptions::default()
        };
        assert_eq!(store.delete(&key, &old).unwrap_err().code, 409);
    }

    #[test]
    fn an_earlier_version_can_be_listed_until_compaction() {
        let (store, key) = store();
        let before = store.revision();
        store.create(&key, pod(), false).unwrap();
        let with = store.revision();
        store
            .delete(
                &key,
                &DeleteOptions {
                    grace: Some(0),
                    ..DeleteOptions::default()
                },
            )
            .unwrap();
        assert_eq!(store.list_at(Resource::Pods, None, before).unwrap().len(), 0);
        assert_eq!(store.list_at(Resource::Pods, None, with).unwrap().len(), 1);
        assert_eq!(
            store.changes_since(Resource::Pods, Some("n"), before).unwrap().1.len(),
            2
        );
        store.compact();
        assert_eq!(store.list_at(Resource::Pods, None, with).unwrap_err().code, 410);
        assert_eq!(store.changes_since(Resource::Pods, None, with).unwrap_err().code, 410);
    }
}
