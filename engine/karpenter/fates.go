package main

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// fates remembers what was decided for each claim: a claim has one fate, however often its launch is tried.
type fates struct {
	ofClaim map[string]fate
	// refused counts the errors that a claim was answered with.
	refused map[string]int
	// used counts the claims that took their fate from a batch.
	used map[int]int
	// struck are the groups that have had their fault.
	struck map[string]bool
}

func newFates() fates {
	return fates{ofClaim: map[string]fate{}, refused: map[string]int{}, used: map[int]int{}, struck: map[string]bool{}}
}

// decided is a fate with where it came from, as it is recorded.
type decided struct {
	fate
	Batch int    `json:"batch,omitempty"`
	Group string `json:"group,omitempty"`
}

// decide says the fate of a claim that has none yet: from the list of the next launches, else by the odds.
func (f *fates) decide(claim *v1.NodeClaim, c controls) decided {
	batch := c.Launches.Batch
	if next := f.used[batch]; next < len(c.Launches.Fates) {
		return decided{fate: c.Launches.Fates[next], Batch: batch}
	}
	if c.Odds == nil || len(c.Odds.Fates) == 0 {
		return decided{fate: fate{Kind: fateWell}}
	}
	group := groupOf(claim, c.Odds.GroupLabels)
	drawn := draw(c.Odds.Seed, group)
	if f.struck[group] || drawn%100 >= c.Odds.Percent {
		return decided{fate: fate{Kind: fateWell}}
	}
	which := drawn / 100 % uint64(len(c.Odds.Fates))
	return decided{fate: c.Odds.Fates[which], Group: group}
}

func (f *fates) remember(claimUID string, d decided) {
	f.ofClaim[claimUID] = d.fate
	if d.Batch != 0 {
		f.used[d.Batch]++
	}
	if d.Group != "" {
		f.struck[d.Group] = true
	}
}

func groupOf(claim *v1.NodeClaim, labels []string) string {
	if len(labels) == 0 {
		return fmt.Sprintf("%q", claim.Name)
	}
	group := ""
	for _, label := range labels {
		group += fmt.Sprintf("%q", claim.Labels[label])
	}
	return group
}

// draw is the same number for the same seed and group, on every machine and in any order.
func draw(seed uint64, group string) uint64 {
	digest := sha256.Sum256(fmt.Appendf(nil, "%d %s", seed, group))
	return binary.BigEndian.Uint64(digest[:8])
}
