package main

import (
	"context"
	"fmt"
	goruntime "runtime"
	"slices"
	"syscall"
	"time"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"
)

// run relays n requests in chunks. Of each chunk only the relaying is measured: its
// requests are made before, and the garbage of making them is collected before, too.
func (r *runtime) run(n, chunk int) (any, error) {
	ctx := context.Background()
	took := make([]time.Duration, 0, n)
	var cpu time.Duration
	for len(took) < n {
		requests := r.prepare(min(chunk, n-len(took)))
		goruntime.GC()
		before, err := used()
		if err != nil {
			return nil, err
		}
		for _, request := range requests {
			start := time.Now()
			if err := r.nri.StartContainer(ctx, request); err != nil {
				return nil, err
			}
			took = append(took, time.Since(start))
		}
		after, err := used()
		if err != nil {
			return nil, err
		}
		cpu += after - before
	}
	return summary(took, cpu), nil
}

// prepare makes requests for containers that are alike in all but their id.
func (r *runtime) prepare(n int) []*api.StartContainerRequest {
	requests := make([]*api.StartContainerRequest, n)
	for i := range requests {
		requests[i] = proto.Clone(r.request).(*api.StartContainerRequest)
		requests[i].Container.Id = fmt.Sprintf("c7%062x", r.serial)
		r.serial++
	}
	return requests
}

// sample is what one run showed, in microseconds.
type sample struct {
	Operations int     `json:"operations"`
	P50        float64 `json:"p50_us"`
	P99        float64 `json:"p99_us"`
	CPU        float64 `json:"cpu_us_per_op"`
}

func summary(took []time.Duration, cpu time.Duration) sample {
	slices.Sort(took)
	n := len(took)
	return sample{
		Operations: n,
		P50:        microseconds(took[n*50/100]),
		P99:        microseconds(took[n*99/100]),
		CPU:        microseconds(cpu) / float64(n),
	}
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// used is the CPU time of this process so far, user and system.
func used() (time.Duration, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, err
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}
