package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"
)

// controls is what the test wants of the cloud: one JSON file, replaced as a whole. It is looked at whenever it
// matters, so a launch that begins after the file was replaced obeys the new one.
type controls struct {
	// BootMilliseconds pass from a launch until its Node registers.
	BootMilliseconds int64 `json:"boot_milliseconds"`
	// StockOutMemorySeconds is for how long an offering that was out of stock is not offered: AWS' provider does so too.
	StockOutMemorySeconds int64 `json:"stock_out_memory_seconds"`
	// Stock limits how many machines there are; without an entry there is no end of them.
	Stock []stock `json:"stock"`
	// Prices replace those of the instance types; the last that matches counts.
	Prices []price `json:"prices"`
	// Launches are the fates of the next claims, in the order in which the cloud sees them.
	Launches launches `json:"launches"`
	// Odds give a fault to a share of all claims.
	Odds *odds `json:"odds"`
	// Reclaim says when the cloud takes a machine away, by the name of its Node.
	Reclaim map[string]time.Time `json:"reclaim"`
}

// pattern is a set of offerings; what is empty matches all.
type pattern struct {
	InstanceType string `json:"instance_type"`
	Zone         string `json:"zone"`
	CapacityType string `json:"capacity_type"`
	Rack         string `json:"rack"`
}

type stock struct {
	Of pattern `json:"of"`
	// MachinesMax live at a time, of all that the pattern matches together.
	MachinesMax int `json:"machines_max"`
}

type price struct {
	Of            pattern `json:"of"`
	MicrosPerHour int64   `json:"micros_per_hour"`
}

type launches struct {
	// Batch is another number for every list, so that a list is used up only once.
	Batch int    `json:"batch"`
	Fates []fate `json:"fates"`
}

type odds struct {
	Seed    uint64 `json:"seed"`
	Percent uint64 `json:"percent"`
	// GroupLabels name labels of claims. Claims that are alike in them are one group, of which at most one claim, the
	// first to be launched, meets a fault. Without any, each claim is its own group.
	GroupLabels []string `json:"group_labels"`
	// TriesOf is an annotation of claims that names a gang; then the nth group of a gang, its nth try, has the same fate
	// whatever the group is called. SizeOf is one that says how many claims make the gang whole: each claim of the same group
	// beyond these is a try of its own.
	TriesOf string `json:"tries_of"`
	SizeOf  string `json:"size_of"`
	Fates   []fate `json:"fates"`
}

// fate is what becomes of a claim's launch.
type fate struct {
	Kind fateKind `json:"kind"`
	// Milliseconds of a slow boot, or until a machine disappears.
	Milliseconds int64 `json:"milliseconds,omitempty"`
	// Times that a launch is refused by an error before it succeeds.
	Times int `json:"times,omitempty"`
}

type fateKind string

const (
	fateWell           fateKind = "well"
	fateStockOut       fateKind = "stock_out"
	fateError          fateKind = "error"
	fateSlow           fateKind = "slow"
	fateNeverRegisters fateKind = "never_registers"
	fateDisappears     fateKind = "disappears"
)

// controlFile reads the controls anew when the file was replaced.
type controlFile struct {
	path string

	mutex sync.Mutex
	seen  os.FileInfo
	last  controls
}

func (f *controlFile) read() (controls, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	info, err := os.Stat(f.path)
	if err != nil {
		return controls{}, fmt.Errorf("finding the controls: %w", err)
	}
	// A file that replaces another is another file, however quickly it follows.
	if f.seen != nil && os.SameFile(f.seen, info) && f.seen.ModTime().Equal(info.ModTime()) {
		return f.last, nil
	}
	text, err := os.ReadFile(f.path)
	if err != nil {
		return controls{}, fmt.Errorf("reading the controls: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var read controls
	if err := decoder.Decode(&read); err != nil {
		return controls{}, fmt.Errorf("understanding the controls: %w", err)
	}
	f.seen, f.last = info, read
	return read, nil
}
