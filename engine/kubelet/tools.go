//go:build tools

// Package engine pins the kubelet of real nodes, apart from the other servers: theirs stay as they are when this changes.
package engine

import (
	_ "k8s.io/kubernetes/cmd/kubelet"
)
