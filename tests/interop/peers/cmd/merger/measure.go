package main

import (
	goruntime "runtime"
	"time"

	"peers/figures"

	"google.golang.org/protobuf/proto"
)

// chunk is how many questions are made before they are asked.
const chunk = 250

// measure asks a question many times. Only the relaying to the plugins and the merging is measured: requests and replies
// are made before, and the garbage of making them is collected before, too. There is no validator.
func measure(r *runtime, q *question) (any, error) {
	first, err := read(q)
	if err != nil {
		return nil, err
	}
	took := make([]time.Duration, 0, q.Repeat)
	var cpu time.Duration
	for len(took) < q.Repeat {
		questions := copies(first, min(chunk, q.Repeat-len(took)))
		goruntime.GC()
		before, err := figures.Used()
		if err != nil {
			return nil, err
		}
		for _, asked := range questions {
			r.replies = asked.replies
			start := time.Now()
			if _, err := r.relay(asked.request); err != nil {
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

func copies(of asked, n int) []asked {
	all := make([]asked, n)
	for i := range all {
		all[i].request = proto.Clone(of.request)
		for _, reply := range of.replies {
			all[i].replies = append(all[i].replies, proto.Clone(reply))
		}
	}
	return all
}
