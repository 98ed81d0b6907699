"""Answers from documents: one rewrites, one selects, one answers; the retriever is a rule."""
