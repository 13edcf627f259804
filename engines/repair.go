package engines

import (
	"context"

	"github.com/tidemarkdb/tidemark/diff"
)

func (e pg) Repair(ctx context.Context) (diff.Repairer, error) {
	m, err := e.Engine.Repair(ctx)
	if err != nil {
		return nil, err
	}
	return m, nil
}

func (e my) Repair(ctx context.Context) (diff.Repairer, error) {
	m, err := e.Engine.Repair(ctx)
	if err != nil {
		return nil, err
	}
	return m, nil
}
