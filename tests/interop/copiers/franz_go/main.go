// The copier with franz-go: see tests/interop/copiers.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func fail(what string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", what, err)
		os.Exit(1)
	}
}

func main() {
	bootstrap, group, source, output, name := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(source),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
		kgo.SessionTimeout(6*time.Second),
		kgo.TransactionalID(name),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
	fail("start", err)
	ctx, end := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		end()
	}()
	for ctx.Err() == nil {
		polling, done := context.WithTimeout(ctx, 200*time.Millisecond)
		fetches := session.PollRecords(polling, 500)
		done()
		if fetches.Empty() {
			continue
		}
		fail("begin", session.Begin())
		promise := kgo.AbortingFirstErrPromise(session.Client())
		fetches.EachRecord(func(record *kgo.Record) {
			copied := &kgo.Record{Topic: output, Partition: record.Partition, Value: record.Value}
			session.Produce(context.Background(), copied, promise.Promise())
		})
		_, err := session.End(context.Background(), promise.Err() == nil)
		fail("end", err)
	}
	session.Close()
}
