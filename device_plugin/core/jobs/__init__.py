"""Job policies: which training jobs run now, and how wide. Every decision is a function of time, jobs and room."""
