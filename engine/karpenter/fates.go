package main

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// fates remembers what was decided for each claim: a claim has one fate, however often its launch is tried.
type fates struct {
	ofClaim map[string]fate
	// refused counts the errors that a claim was answered with.
	refused map[string]int
	// used counts the claims that took their fate from a batch.
	used map[int]int
	// members counts the claims of each group.
	members map[string]int
	// tries counts the tries of each gang.
	tries map[string]int
}

func newFates() fates {
	return fates{
		ofClaim: map[string]fate{}, refused: map[string]int{}, used: map[int]int{},
		members: map[string]int{}, tries: map[string]int{},
	}
}

// decided is a fate with where it came from, as it is recorded.
type decided struct {
	fate
	Batch int    `json:"batch,omitempty"`
	Group string `json:"group,omitempty"`
	// Gang and Try are those of a claim with which a try begins.
	Gang string `json:"gang,omitempty"`
	Try  int    `json:"try,omitempty"`
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
	d := decided{fate: fate{Kind: fateWell}, Group: groupOf(claim, c.Odds.GroupLabels)}
	d.Gang = d.Group
	if c.Odds.TriesOf != "" {
		d.Gang = claim.Annotations[c.Odds.TriesOf]
	}
	if !f.beginsTry(claim, d.Group, c.Odds) {
		d.Gang = ""
		return d
	}
	d.Try = f.tries[d.Gang] + 1
	drawn := draw(c.Odds.Seed, d.Gang, d.Try)
	if drawn%100 < c.Odds.Percent {
		d.fate = c.Odds.Fates[drawn/100%uint64(len(c.Odds.Fates))]
	}
	return d
}

// beginsTry says whether a claim is the first of its group, or replaces one of a group that is whole.
func (f *fates) beginsTry(claim *v1.NodeClaim, group string, o *odds) bool {
	before := f.members[group]
	if before == 0 {
		return true
	}
	size, err := strconv.Atoi(claim.Annotations[o.SizeOf])
	return err == nil && before >= size
}

func (f *fates) remember(claimUID string, d decided) {
	f.ofClaim[claimUID] = d.fate
	if d.Batch != 0 {
		f.used[d.Batch]++
	}
	if d.Group != "" {
		f.members[d.Group]++
	}
	if d.Try != 0 {
		f.tries[d.Gang] = d.Try
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

// draw is the same number for the same seed, gang and try, on every machine and in any order.
func draw(seed uint64, gang string, try int) uint64 {
	digest := sha256.Sum256(fmt.Appendf(nil, "%d %s %d", seed, gang, try))
	return binary.BigEndian.Uint64(digest[:8])
}
