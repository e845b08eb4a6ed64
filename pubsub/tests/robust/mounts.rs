//! Something is mounted over a topic's folder. inotify does not report that: the rescan after 30 s finds it, and from
//! then on the mounted folder is watched.

use std::path::Path;

use nix::mount::{MntFlags, umount2};

use crate::namespace::{bind, is_inside, mount_memory};
use crate::place::{Place, VOLATILE, echo, follows, json, replace, rescanned, runtime};

#[test]
fn what_is_mounted_over_a_folder_is_found_and_followed() {
    if !is_inside("mounts::what_is_mounted_over_a_folder_is_found_and_followed") {
        return;
    }
    let binding = |over: &Path| {
        let other = over.with_file_name("Other");
        echo(&other.join("global.json"), &json("mounted"));
        bind(&other, over);
    };
    let memory = |over: &Path| {
        mount_memory(over, "size=64k");
        echo(&over.join("global.json"), &json("mounted"));
    };
    runtime().block_on(async {
        check("a bind mount", binding).await;
        check("a file system in memory", memory).await;
    });
}

async fn check(what: &str, mount: impl Fn(&Path)) {
    let place = Place::new(VOLATILE);
    let path = place.file("global.json");
    echo(&path, &json("below"));
    let mut subscription = place.subscribe();
    mount(&place.folder());
    rescanned(&mut subscription, &[("global", "mounted")], what).await;
    for context in ["one", "two", "three"] {
        replace(&path, &json(context));
        follows(&mut subscription, &[("global", context)], what).await;
    }
    umount2(&place.folder(), MntFlags::MNT_DETACH).unwrap();
    rescanned(&mut subscription, &[("global", "below")], &format!("{what} that went")).await;
    for context in ["four", "five"] {
        replace(&path, &json(context));
        follows(&mut subscription, &[("global", context)], what).await;
    }
}
