//go:build tools

// Package engine pins the KWOK node simulator that `cargo xtask engine` builds.
package engine

import _ "sigs.k8s.io/kwok/cmd/kwok"
