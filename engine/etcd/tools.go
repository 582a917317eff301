//go:build tools

// Package engine pins the etcd server that `cargo xtask engine` builds.
package engine

import _ "go.etcd.io/etcd/server/v3"
