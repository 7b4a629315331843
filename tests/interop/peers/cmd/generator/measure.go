package main

import (
	"encoding/json"
	goruntime "runtime"
	"time"

	"peers/figures"

	"github.com/containerd/nri/pkg/api"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// chunk is how many specs are made before they are adjusted.
const chunk = 100

// measure adjusts a spec many times, from text to text or, alone, in memory. Garbage of before is collected before.
func measure(q *question, adjust *api.ContainerAdjustment) (any, error) {
	took := make([]time.Duration, 0, q.Repeat)
	var cpu time.Duration
	for len(took) < q.Repeat {
		read, err := copies(q, min(chunk, q.Repeat-len(took)))
		if err != nil {
			return nil, err
		}
		goruntime.GC()
		before, err := figures.Used()
		if err != nil {
			return nil, err
		}
		for _, spec := range read {
			start := time.Now()
			if q.Alone {
				err = apply(spec, adjust)
			} else {
				_, err = document(q.Spec, adjust)
			}
			if err != nil {
				return nil, err
			}
			took = append(took, time.Since(start))
		}
		after, err := figures.Used()
		if err != nil {
			return nil, err
		}
		cpu += after - before
	}
	return figures.Summary(took, cpu), nil
}

// copies reads a spec so many times, if it is to be adjusted in memory.
func copies(q *question, n int) ([]*specs.Spec, error) {
	read := make([]*specs.Spec, n)
	for i := range read {
		if !q.Alone {
			continue
		}
		read[i] = &specs.Spec{}
		if err := json.Unmarshal(q.Spec, read[i]); err != nil {
			return nil, err
		}
	}
	return read, nil
}
