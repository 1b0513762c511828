"populora: population self-play for language models."
__version__ = "0.1.0"
