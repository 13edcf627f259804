package engines

import (
	"context"

	"github.com/tidemarkdb/tidemark/diff"
)

func (e pg) Mend(ctx context.Context) (diff.Mender, error) {
	m, err := e.Engine.Mend(ctx)
	if err != nil {
		return nil, err
	}
	return m, nil
}

func (e my) Mend(ctx context.Context) (diff.Mender, error) {
	m, err := e.Engine.Mend(ctx)
	if err != nil {
		return nil, err
	}
	return m, nil
}
