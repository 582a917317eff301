// Filter-oracle says what kube-scheduler's default filter plugins say of a cluster and one pending pod.
//
//	stdin ──case──► stored.go: as the API server would store it ──► judge.go: upstream's plugins ──answer──► stdout
//
// One JSON object per line in, one per line out, in the same order. It decides nothing itself: the rules are
// upstream's packages, with the default profile and the default feature gates. It never talks to a cluster.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"

	v1 "k8s.io/api/core/v1"
)

// cluster is a case as it comes in, and again as the API server would have stored it.
type cluster struct {
	Namespaces []*v1.Namespace `json:"namespaces"`
	Nodes      []*v1.Node      `json:"nodes"`
	// Pods are those that are not judged: most are bound.
	Pods []*v1.Pod `json:"pods"`
	// Pod is the one that looks for a node.
	Pod *v1.Pod `json:"pod"`
}

// answer is either Invalid, or both of the others.
type answer struct {
	// Invalid says why the API server would not admit the case.
	Invalid []string           `json:"invalid,omitempty"`
	Stored  *cluster           `json:"stored,omitempty"`
	Nodes   map[string]verdict `json:"nodes,omitempty"`
}

// verdict says whether the pod may go to a node, and if not, who says so.
type verdict struct {
	Fits   bool   `json:"fits"`
	Plugin string `json:"plugin,omitempty"`
	Reason string `json:"reason,omitempty"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "filter-oracle:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, in io.Reader, out io.Writer) error {
	judge, err := newJudge(ctx)
	if err != nil {
		return fmt.Errorf("cannot set upstream's plugins up: %w", err)
	}
	decoder := json.NewDecoder(bufio.NewReaderSize(in, 1<<20))
	buffered := bufio.NewWriterSize(out, 1<<20)
	encoder := json.NewEncoder(buffered)
	for number := 0; ; number++ {
		var given cluster
		if err := decoder.Decode(&given); errors.Is(err, io.EOF) {
			return buffered.Flush()
		} else if err != nil {
			return fmt.Errorf("cannot read case %d: %w", number, err)
		}
		answered, err := answerTo(ctx, judge, &given)
		if err != nil {
			return fmt.Errorf("cannot judge case %d: %w", number, err)
		}
		if err := encoder.Encode(answered); err != nil {
			return fmt.Errorf("cannot answer case %d: %w", number, err)
		}
		// Whoever asks one case at a time waits for this line.
		if err := buffered.Flush(); err != nil {
			return fmt.Errorf("cannot answer case %d: %w", number, err)
		}
	}
}

func answerTo(ctx context.Context, judge *judge, given *cluster) (*answer, error) {
	if given.Pod == nil {
		return nil, errors.New("it has no pod")
	}
	stored, invalid, err := store(ctx, given)
	if err != nil || len(invalid) > 0 {
		return &answer{Invalid: invalid}, err
	}
	verdicts, err := judge.verdicts(ctx, stored)
	return &answer{Stored: stored, Nodes: verdicts}, err
}
