"""All pipelines, by name."""

from __future__ import annotations

from spark_pipeline.pipelines import (
    event_counts,
    leaderboard,
    movie_ratings,
    music_charts,
    risk,
    stock_trades,
    user_sessions,
)
from spark_pipeline.pipelines.pipeline import Pipeline

PIPELINES: dict[str, Pipeline] = {
    pipeline.name: pipeline
    for pipeline in (
        music_charts.PIPELINE,
        risk.PIPELINE,
        stock_trades.PIPELINE,
        movie_ratings.PIPELINE,
        leaderboard.PIPELINE,
        user_sessions.PIPELINE,
        event_counts.PIPELINE,
    )
}
