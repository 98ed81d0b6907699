"""A fact that is needed after its place in the chat is gone: which notes keep it?"""
