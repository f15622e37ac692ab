from .comparison import ComparedLearner as ComparedLearner
from .comparison import Comparison as Comparison
from .comparison import compare as compare
