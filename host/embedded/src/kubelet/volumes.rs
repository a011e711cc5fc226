//! Volumes: a directory each, and a symlink at every mount path under the container's own directory.
//! Claims outlive pods; `emptyDir` and secrets live in the pod's directory. Other kinds are empty directories.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use tokio::fs;

use super::Kubelet;
use crate::json;
use crate::resource::{Key, Resource};
use crate::validate::check_secret_keys;

fn volume_path(pod_directory: &Path, name: &str) -> PathBuf {
    pod_directory.join(".volumes").join(name)
}

/// Makes every volume of the pod. The error is what is missing still; try again when something changed.
pub(super) async fn prepare(kubelet: &Kubelet, pod: &Value, directory: &Path) -> Result<(), String> {
    let namespace = json::text(pod, "/metadata/namespace");
    for volume in json::list(pod, "/spec/volumes") {
        let name = json::text(volume, "/name");
        let failed = |why: String| format!("MountVolume.SetUp failed for volume \"{name}\" : {why}");
        let path = volume_path(directory, name);
        let made = if let Some(source) = volume.get("persistentVolumeClaim") {
            let claim = Key::new(Resource::Claims, namespace, json::text(source, "/claimName"));
            let claim = kubelet.store.find(&claim).map_err(|error| failed(error.message))?;
            let data = kubelet.data.join("claims").join(json::text(&claim, "/metadata/uid"));
            match fs::create_dir_all(&data).await {
                Ok(()) => link_to(&data, &path).await,
                Err(error) => Err(error),
            }
        } else if let Some(source) = volume.get("hostPath") {
            link_to(Path::new(json::text(source, "/path")), &path).await
        } else {
            fs::create_dir_all(&path).await
        };
        made.map_err(|error| failed(error.to_string()))?;
        if let Some(source) = volume.get("secret") {
            secret(kubelet, namespace, source, &path).await.map_err(failed)?;
        }
    }
    Ok(())
}

async fn link_to(target: &Path, link: &Path) -> io::Result<()> {
    if let Some(parent) = link.parent() {
        fs::create_dir_all(parent).await?;
    }
    replace_link(target, link).await
}

async fn replace_link(target: &Path, link: &Path) -> io::Result<()> {
    match fs::symlink_metadata(link).await {
        // Only an empty one: a mount inside another mount must not cost what is stored there.
        Ok(there) if there.is_dir() => fs::remove_dir(link).await?,
        Ok(_) => fs::remove_file(link).await?,
        Err(_) => {}
    }
    fs::symlink(target, link).await
}

async fn secret(kubelet: &Kubelet, namespace: &str, source: &Value, path: &Path) -> Result<(), String> {
    let name = json::text(source, "/secretName");
    let optional = source.get("optional") == Some(&Value::Bool(true));
    let Some(secret) = kubelet.store.get(&Key::new(Resource::Secrets, namespace, name)) else {
        return if optional {
            Ok(())
        } else {
            Err(format!("secret \"{name}\" not found"))
        };
    };
    let items = json::list(source, "/items");
    if !optional {
        check_secret_keys(&secret, items)?;
    }
    let default_mode = source.get("defaultMode").and_then(Value::as_u64).unwrap_or(0o644);
    for (key, value) in json::entries(&secret, "/data") {
        let bytes = STANDARD.decode(value.as_str().unwrap_or_default()).unwrap_or_default();
        if items.is_empty() {
            write(&path.join(key), &bytes, default_mode)
                .await
                .map_err(|error| error.to_string())?;
        }
        for item in items.iter().filter(|item| json::text(item, "/key") == key) {
            let mode = item.get("mode").and_then(Value::as_u64).unwrap_or(default_mode);
            let at = path.join(relative(json::text(item, "/path")));
            write(&at, &bytes, mode).await.map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

async fn write(path: &Path, bytes: &[u8], mode: u64) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).await?;
    }
    fs::write(path, bytes).await?;
    let mode = u32::try_from(mode & 0o777).unwrap_or(0o600);
    fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).await
}

/// A path below something: without root and without `..`.
pub(super) fn relative(path: &str) -> PathBuf {
    Path::new(path)
        .components()
        .filter(|part| matches!(part, Component::Normal(_)))
        .collect()
}

/// Links a container's mounts into its directory.
pub(super) async fn mount(pod: &Value, container: &Value, directory: &Path, root: &Path) -> Result<(), String> {
    let mut mounts: Vec<&Value> = json::list(container, "/volumeMounts").iter().collect();
    // An outer mount before those inside it.
    mounts.sort_by_key(|mount| json::text(mount, "/mountPath").len());
    for mount in mounts {
        let name = json::text(mount, "/name");
        let sub = relative(json::text(mount, "/subPath"));
        let source = volume_path(directory, name).join(&sub);
        let writable = json::list(pod, "/spec/volumes")
            .iter()
            .any(|volume| json::text(volume, "/name") == name && volume.get("secret").is_none());
        let at = root.join(relative(json::text(mount, "/mountPath")));
        if let Err(error) = link(&source, &at, root, writable).await {
            let container = json::text(container, "/name");
            return Err(format!(
                "failed to prepare subPath for volumeMount \"{name}\" of container \"{container}\": {error}"
            ));
        }
    }
    Ok(())
}

async fn link(source: &Path, at: &Path, root: &Path, writable: bool) -> io::Result<()> {
    if at == root {
        return Ok(()); // the root itself cannot be replaced
    }
    if fs::metadata(source).await.is_err() {
        if !writable {
            return Err(io::Error::from(io::ErrorKind::NotFound));
        }
        fs::create_dir_all(source).await?;
    }
    if let Some(parent) = at.parent() {
        fs::create_dir_all(parent).await?;
    }
    replace_link(source, at).await
}
